//! Samples of sensors: `hardware.ipmi.temperature`, `.fan`, `.voltage`, `.current` and `.power`.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::Map;

use super::output::{id_part, reading, sensors};
use crate::{
    polling::{
        command::{self, Errors},
        cycle::Cycle,
        discovery::LOCAL_NODE,
        outlet::Outlet,
        pollster::{Meter, PollError, Polled, Pollster},
        resource::Resource,
    },
    sample::Sample,
};

/// How to read the sensors.
#[derive(Clone, Debug)]
pub struct IpmiOptions {
    /// The command before its arguments: `ipmitool`, or `sudo -n ipmitool`.
    pub command: Vec<String>,
    /// Timeout of one run.
    pub timeout: Duration,
    /// Consecutive failures after which a meter is not polled again; negative: no limit.
    pub failures_max: i64,
    /// This machine's name.
    pub host: String,
}

struct Sensors {
    meter: Meter,
    /// The type of the sensors.
    kind: &'static str,
    arguments: &'static [&'static str],
    options: Arc<IpmiOptions>,
    failures: AtomicI64,
}

/// Power sensors have the type `Current`; this one is known.
pub const POWER: &str = "Pwr Consumption";
const FAN: &str = "Fan";
const CURRENT: &str = "Current";

type Kind = (Meter, &'static str, &'static [&'static str]);

// Units are those of the readings.
const METERS: [Kind; 5] = [
    (Meter::gauge("hardware.ipmi.temperature", ""), "Temperature", &["sdr", "-v", "type", "Temperature"]),
    (Meter::gauge("hardware.ipmi.fan", ""), FAN, &["sdr", "-v", "type", FAN]),
    (Meter::gauge("hardware.ipmi.voltage", ""), "Voltage", &["sdr", "-v", "type", "Voltage"]),
    (Meter::gauge("hardware.ipmi.current", ""), CURRENT, &["sdr", "-v", "type", CURRENT]),
    (Meter::gauge("hardware.ipmi.power", ""), CURRENT, &["sensor", "get", POWER]),
];

/// All pollsters of the namespace.
pub fn pollsters(options: IpmiOptions) -> Vec<Arc<dyn Pollster>> {
    let options = Arc::new(options);
    let pollster = |(meter, kind, arguments)| {
        let options = Arc::clone(&options);
        Arc::new(Sensors { meter, kind, arguments, options, failures: AtomicI64::new(0) })
            as Arc<dyn Pollster>
    };
    METERS.into_iter().map(pollster).collect()
}

impl Sensors {
    fn is_disabled(&self) -> bool {
        let failures_max = self.options.failures_max;
        failures_max >= 0 && self.failures.load(Ordering::Relaxed) > failures_max
    }

    async fn samples(&self) -> Result<Vec<Sample<'static>>, PollError> {
        let [program, before @ ..] = self.options.command.as_slice() else {
            return Err(PollError("no command for ipmitool".to_owned()));
        };
        let mut ipmitool = Command::new(program);
        ipmitool.args(before).args(self.arguments).env("LC_ALL", "C");
        let ran = command::run(ipmitool, Errors::Apart, self.options.timeout).await?;
        if !ran.status.success() {
            let told = String::from_utf8_lossy(&ran.stderr);
            let told = told.lines().next().unwrap_or_default();
            return Err(PollError(format!("{program} {}: {} {told}", self.arguments.join(" "), ran.status)));
        }
        let found = sensors(&String::from_utf8_lossy(&ran.stdout)).map_err(PollError)?;
        let is_power = self.arguments.contains(&POWER);
        let wanted = found.iter().filter(|sensor| sensor.kind == self.kind);
        // Power sensors are listed among the currents.
        let wanted = wanted.filter(|sensor| is_power || self.kind != CURRENT || !sensor.id.contains(POWER));
        let host = &self.options.host;
        let samples = wanted.filter_map(|sensor| {
            let (value, unit) = reading(sensor)?;
            let mut metadata = Map::from_iter([("node".to_owned(), host.as_str().into())]);
            if self.kind == FAN
                && let Some(maximum) = sensor.field("Normal Maximum")
            {
                metadata.insert("maximum_rpm".to_owned(), maximum.into());
            }
            let id = format!("{host}-{}", id_part(&sensor.id));
            let mut sample = self.meter.sample(id, value.into(), metadata);
            sample.unit = unit.to_owned().into();
            Some(sample)
        });
        Ok(samples.collect())
    }
}

#[async_trait]
impl Pollster for Sensors {
    fn name(&self) -> &str {
        self.meter.name
    }

    fn default_discovery(&self) -> Option<&str> {
        Some(LOCAL_NODE)
    }

    /// Reads the sensors once, whatever the resources are: there is one machine.
    async fn poll(&self, _: &Cycle, _: &[Resource], outlet: &mut Outlet<'_>) -> Polled {
        if self.is_disabled() {
            return Ok(());
        }
        let samples = match self.samples().await {
            Ok(samples) => samples,
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if self.is_disabled() {
                    tracing::warn!(
                        meter = self.meter.name,
                        "polled no more: too many failures ([ipmi] polling_retry)"
                    );
                }
                return Err(error);
            }
        };
        self.failures.store(0, Ordering::Relaxed);
        for sample in samples {
            outlet.push(sample).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(command: &[&str], failures_max: i64) -> Sensors {
        let (meter, kind, arguments) = METERS[4];
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let timeout = Duration::from_secs(20);
        let options = Arc::new(IpmiOptions { command, timeout, failures_max, host: "h".to_owned() });
        Sensors { meter, kind, arguments, options, failures: AtomicI64::new(0) }
    }

    #[tokio::test]
    async fn failures_are_counted_and_told() {
        let error = power(&["sh", "-c", "echo no device >&2; exit 1"], 1).samples().await.unwrap_err();
        assert!(error.0.contains("exit status: 1 no device"), "{error}");
        let sensors = power(&["false"], 1);
        for (failures, is_disabled) in [(0, false), (1, false), (2, true)] {
            sensors.failures.store(failures, Ordering::Relaxed);
            assert_eq!(sensors.is_disabled(), is_disabled);
        }
        assert!(power(&[], 1).samples().await.is_err());
        let for_ever = power(&["false"], -1);
        for_ever.failures.store(1000, Ordering::Relaxed);
        assert!(!for_ever.is_disabled());
    }

    #[tokio::test]
    async fn power_is_the_sensor_of_that_name() {
        let text = "Sensor ID : Pwr Consumption (0x76)\\n Sensor Type (Threshold) : Current\\n Sensor Reading : 154 (+/- 0) Watts\\n";
        let samples = power(&["printf", text], 1).samples().await.unwrap();
        assert_eq!(samples.len(), 1);
        assert_eq!((samples[0].unit.as_ref(), &samples[0].volume), ("W", &serde_json::json!(154.0)));
        assert_eq!(samples[0].resource_id, "h-pwr_consumption_(0x76)");
    }
}

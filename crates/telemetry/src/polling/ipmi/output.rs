//! Parses the output of `ipmitool sdr -v type ...` and `ipmitool sensor get ...`: sensors as blocks of lines `name :
//! value`.

/// The lines of one sensor that have exactly one colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// The first word of its type: `Temperature`, `Fan`, `Current` ...
    pub kind: String,
    pub id: String,
    fields: Vec<(String, String)>,
}

impl Sensor {
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }
}

/// The value of a field; the last one if repeated.
fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

const READING: &str = "Sensor Reading";
const KINDS: [&str; 3] = ["Sensor Type (Analog)", "Sensor Type (Discrete)", "Sensor Type (Threshold)"];

/// All sensors with a reading, without duplicates. `Err` says why the output is invalid.
pub fn sensors(text: &str) -> Result<Vec<Sensor>, String> {
    let mut sensors: Vec<Sensor> = Vec::new();
    if text.is_empty() {
        return Ok(sensors);
    }
    for block in text.split("\n\n") {
        let fields: Vec<(String, String)> = block.split('\n').filter_map(pair).collect();
        if fields.is_empty() {
            continue;
        }
        let kind = KINDS.iter().find_map(|kind| field(&fields, kind)).ok_or("a sensor without a type")?;
        let kind = kind.split(' ').next().unwrap_or_default().to_owned();
        let id = field(&fields, "Sensor ID").ok_or("a sensor without an id")?.to_owned();
        if field(&fields, READING).is_none() {
            continue;
        }
        let sensor = Sensor { kind, id, fields };
        match sensors.iter_mut().find(|other| other.kind == sensor.kind && other.id == sensor.id) {
            Some(other) => *other = sensor,
            None => sensors.push(sensor),
        }
    }
    if sensors.is_empty() { Err("no sensor has a reading".to_owned()) } else { Ok(sensors) }
}

/// Name and value of a line with exactly one colon.
fn pair(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':').filter(|(_, value)| !value.contains(':'))?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

/// Value and unit of a sensor's reading. `None` if it is not a number with a unit.
pub fn reading(sensor: &Sensor) -> Option<(f64, &str)> {
    parsed_reading(sensor.field(READING)?)
}

/// Value and unit: `34 (+/- 2) degrees C` is 34 of `C`. `None` if it is not a number with a unit.
pub fn parsed_reading(text: &str) -> Option<(f64, &str)> {
    let (value, unit) = text.split_once(' ')?;
    let value = gnudi_model::python::float_of_text(value).filter(|value| value.is_finite())?;
    let unit = unit.rsplit(' ').next().unwrap_or(unit);
    Some(match unit {
        "Watts" => (value, "W"),
        "Volts" => (value, "V"),
        unit => (value, unit),
    })
}

/// A sensor's part of a resource's id.
pub fn id_part(sensor_id: &str) -> String {
    sensor_id.to_lowercase().replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_are_read() {
        let text = "Sensor ID              : Inlet Temp (0x5)\n Entity ID             : 7.1 (System Board)\n \
                    Sensor Type (Threshold)  : Temperature (0x01)\n Sensor Reading        : 21 (+/- 1) degrees C\n \
                    Status                : ok\n\nSensor ID              : Fan1 (0x30)\n Sensor Type (Threshold)  : Fan (0x04)\n \
                    Sensor Reading        : Disabled\n\nSensor ID : X\n Sensor Type (Discrete): Fan\n States: a: b\n\n";
        let found = sensors(text).unwrap();
        assert_eq!(found.len(), 2, "one has no reading");
        assert_eq!((found[0].kind.as_str(), found[0].id.as_str()), ("Temperature", "Inlet Temp (0x5)"));
        assert_eq!(reading(&found[0]), Some((21.0, "C")));
        assert_eq!(reading(&found[1]), None);
        assert_eq!(sensors(""), Ok(Vec::new()));
        assert!(sensors("Sensor ID : x\n").is_err());
        assert!(sensors("nothing\n").is_err());
    }
}

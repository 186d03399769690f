//! Derives an instance's figures from the hypervisor's.

use gnudi_libvirt::{MemoryStatistics, Statistics};
use serde_json::Number;

use super::inspector::InstanceStatistics;

const KIB_PER_MIB: f64 = 1024.0;

/// The figures of an instance that is shut off, if reported.
pub fn stopped(state: u8, vcpus: u16, memory_max_kib: u64) -> InstanceStatistics {
    InstanceStatistics {
        power_state: Some(state.into()),
        vcpus: Some(vcpus.into()),
        memory_actual_mib: Some(memory_max_kib as f64 / KIB_PER_MIB),
        ..InstanceStatistics::default()
    }
}

pub fn running(state: u8, memory: &MemoryStatistics, statistics: &Statistics) -> InstanceStatistics {
    let mib = |kib: Option<u64>| kib.map(|kib| kib as f64 / KIB_PER_MIB);
    let used = memory.usable.or(memory.unused).zip(memory.available);
    let swap = memory.swap_in.zip(memory.swap_out);
    let figure = |name| statistics.get(name).and_then(Number::from_i128);
    InstanceStatistics {
        power_state: Some(state.into()),
        vcpus: figure("vcpu.current"),
        cpu_time_ns: cpu_time(statistics).and_then(Number::from_i128),
        memory_actual_mib: mib(memory.actual),
        memory_available_mib: mib(memory.available),
        // Clamped as integers: a guest may report more free memory than it has.
        memory_usage_mib: used
            .map(|(free, available)| (i128::from(available) - i128::from(free)) as f64 / KIB_PER_MIB),
        memory_resident_mib: mib(memory.rss),
        memory_swap_in_mib: mib(swap.map(|(swap_in, _)| swap_in)),
        memory_swap_out_mib: mib(swap.map(|(_, swap_out)| swap_out)),
        cpu_cycles: figure("perf.cpu_cycles"),
        instructions: figure("perf.instructions"),
        cache_references: figure("perf.cache_references"),
        cache_misses: figure("perf.cache_misses"),
    }
}

/// The time of all virtual processors, running and waiting; the domain's own if not all of them report it.
fn cpu_time(statistics: &Statistics) -> Option<i128> {
    let told = |vcpu: i128| {
        let time = statistics.get(&format!("vcpu.{vcpu}.time"))?;
        Some(time + statistics.get(&format!("vcpu.{vcpu}.wait"))?)
    };
    // Numbers may have gaps where processors were removed.
    let times: Vec<i128> = (0..statistics.get("vcpu.maximum").unwrap_or(0)).filter_map(told).collect();
    match statistics.get("vcpu.current") {
        Some(current) if current != times.len() as i128 => statistics.get("cpu.time"),
        _ => Some(times.into_iter().sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(figures: &[(&str, i128)]) -> Statistics {
        Statistics::of(figures.iter().map(|(name, value)| ((*name).to_owned(), *value)))
    }

    #[test]
    fn processors_with_holes_are_added_up() {
        let all = [
            ("vcpu.maximum", 4),
            ("vcpu.current", 2),
            ("vcpu.0.time", 10),
            ("vcpu.0.wait", 1),
            ("vcpu.3.time", 20),
            ("vcpu.3.wait", 2),
            ("cpu.time", 99),
        ];
        assert_eq!(cpu_time(&statistics(&all)), Some(33));
        let one_is_silent: Vec<_> = all.into_iter().filter(|(name, _)| *name != "vcpu.3.wait").collect();
        assert_eq!(cpu_time(&statistics(&one_is_silent)), Some(99));
        assert_eq!(cpu_time(&statistics(&[("vcpu.current", 2)])), None);
        assert_eq!(cpu_time(&statistics(&[])), Some(0));
    }

    #[test]
    fn memory_in_use_is_what_is_not_usable() {
        let memory = MemoryStatistics {
            available: Some(4096),
            usable: Some(1024),
            unused: Some(512),
            ..MemoryStatistics::default()
        };
        let usage = |memory: &MemoryStatistics| running(1, memory, &statistics(&[])).memory_usage_mib;
        assert_eq!(usage(&memory), Some(3.0));
        assert_eq!(usage(&MemoryStatistics { usable: None, ..memory }), Some(3.5));
        assert_eq!(usage(&MemoryStatistics { available: None, ..memory }), None);
        assert_eq!(usage(&MemoryStatistics { available: Some(0), ..memory }), Some(-1.0));
    }
}

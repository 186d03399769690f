//! The calls of a client over time: their starts and durations.

use crate::findings::Line;

/// One call, in seconds since the client began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub begin_s: f64,
    pub latency_s: f64,
}

const BUCKETS_MAX: f64 = 400.0;
const BUCKET_MIN_S: f64 = 0.25;

/// The longest call in progress, in milliseconds, and the calls completed per second, by time since `origin_s`.
pub fn lines(names: [&str; 2], calls: &[Call], origin_s: f64) -> [Line; 2] {
    let end_s = calls.iter().map(|call| call.begin_s + call.latency_s).fold(0.0, f64::max);
    let width_s = (end_s / BUCKETS_MAX).max(BUCKET_MIN_S);
    let mut buckets = vec![(0.0_f64, 0_u64); (end_s / width_s).ceil() as usize];
    let bucket_of = |at_s: f64| (at_s / width_s) as usize;
    for call in calls {
        let (first, last) = (bucket_of(call.begin_s), bucket_of(call.begin_s + call.latency_s));
        // A stall is visible for its whole duration.
        for bucket in buckets.iter_mut().take(last + 1).skip(first) {
            bucket.0 = bucket.0.max(call.latency_s);
        }
        if let Some(bucket) = buckets.get_mut(last) {
            bucket.1 += 1;
        }
    }
    let line = |name: &str, value: &dyn Fn(&(f64, u64)) -> f64| {
        let buckets = buckets.iter().enumerate();
        Line::new(name, buckets.map(|(number, bucket)| (number as f64 * width_s - origin_s, value(bucket))))
    };
    [line(names[0], &|bucket| bucket.0 * 1e3), line(names[1], &|bucket| bucket.1 as f64 / width_s)]
}

pub fn longest_s(calls: &[Call], begin_s: f64, end_s: f64) -> Option<f64> {
    let within = calls.iter().filter(|call| call.begin_s >= begin_s && call.begin_s < end_s);
    within.map(|call| call.latency_s).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_shows_as_long_as_it_lasts() {
        let calls = [(0.0, 0.1), (0.5, 3.0), (4.0, 0.1)];
        let calls = calls.map(|(begin_s, latency_s)| Call { begin_s, latency_s });
        let [latency, rate] = lines(["latency", "rate"], &calls, 1.0);
        let at = |line: &Line, x: f64| line.points.iter().take_while(|point| point.0 <= x).last().unwrap().1;
        // From -0.5 to 2.5 s after the origin.
        for x in [-0.25, 1.0, 2.25] {
            assert_eq!(at(&latency, x), 3000.0, "at {x} s");
        }
        assert_eq!(at(&latency, 2.8), 0.0);
        assert_eq!(at(&latency, 3.1), 100.0);
        assert_eq!((at(&rate, 1.0), at(&rate, 2.5)), (0.0, 4.0));
        assert_eq!(longest_s(&calls, 0.0, 0.5), Some(0.1));
        assert_eq!(longest_s(&calls, 0.5, 5.0), Some(3.0));
        assert_eq!(longest_s(&calls, 5.0, 9.0), None);
    }
}

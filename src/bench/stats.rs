//! Numbers about numbers: spread, and the bootstrap interval of a median. Pure and seeded.

/// Resamples of a bootstrap: enough that the ends of the interval move by less than their last digit shown.
const RESAMPLES: usize = 10_000;
/// Always the same, so that the same runs give the same interval.
const SEED: u64 = 0x5ced;

/// How values lie. `sd` is the sample's (n - 1), 0 for a single value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub count: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub sd: f64,
}

impl Spread {
    /// None of no values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Spread {
            count,
            median: median(&mut values.to_vec()),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean,
            sd: if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 },
        })
    }
}

/// Median; the mean of the two in the middle of an even number. NaN of none. Changes the order.
pub fn median(values: &mut [f64]) -> f64 {
    let count = values.len();
    if count == 0 {
        return f64::NAN;
    }
    let (below, upper, _) = values.select_nth_unstable_by(count / 2, f64::total_cmp);
    if count % 2 == 1 {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (lower + *upper) / 2.0
}

/// The median of `values`, and the interval that holds it with 95 %: percentile bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// None of no values.
pub fn bootstrap_median(values: &[f64]) -> Option<Interval> {
    if values.is_empty() {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut resample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.fill_with(|| values[random.usize(..values.len())]);
            median(&mut resample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    Some(Interval {
        median: median(&mut values.to_vec()),
        low: medians[RESAMPLES * 25 / 1000],
        high: medians[RESAMPLES * 975 / 1000 - 1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spread_of_known_values() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("values");
        assert_eq!((spread.count, spread.median, spread.min, spread.max, spread.mean), (8, 4.5, 2.0, 9.0, 5.0));
        assert!((spread.sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]).expect("value").sd, 0.0);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_interval_is_the_same_every_time_and_narrows_with_more_values() {
        let values = |n: usize| -> Vec<f64> { (0..n).map(|i| 1.0 + (i * 7 % 11) as f64 / 100.0).collect() };
        let (few, many) = (bootstrap_median(&values(11)).expect("few"), bootstrap_median(&values(220)).expect("many"));
        assert_eq!(bootstrap_median(&values(11)), Some(few));
        assert!(many.high - many.low < few.high - few.low);
    }

    #[test]
    fn the_interval_covers_the_truth_nineteen_times_in_twenty() {
        let mut random = fastrand::Rng::with_seed(1);
        let trials = 60;
        // Sums of three uniform values around 1.0: the true median is 1.0.
        let covered = (0..trials)
            .filter(|_| {
                let sample: Vec<f64> = (0..20).map(|_| 0.7 + 0.2 * (0..3).map(|_| random.f64()).sum::<f64>()).collect();
                let interval = bootstrap_median(&sample).expect("values");
                interval.low <= 1.0 && 1.0 <= interval.high
            })
            .count();
        assert!(covered * 100 >= trials * 88, "{covered} of {trials}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn median_splits_the_values_in_halves(values in proptest::collection::vec(-1e6..1e6f64, 1..60)) {
            let middle = median(&mut values.clone());
            let below = values.iter().filter(|&&value| value < middle).count();
            let above = values.iter().filter(|&&value| value > middle).count();
            prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
        }

        #[test]
        fn interval_holds_its_median_and_lies_within_the_values(values in proptest::collection::vec(0.1..10f64, 1..12)) {
            let (interval, spread) = (bootstrap_median(&values), Spread::of(&values));
            let (interval, spread) = (interval.expect("values"), spread.expect("values"));
            prop_assert!(spread.min <= interval.low && interval.low <= interval.median);
            prop_assert!(interval.median <= interval.high && interval.high <= spread.max);
        }
    }
}

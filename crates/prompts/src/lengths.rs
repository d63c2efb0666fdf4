//! Drawing token lengths, and reading them from a file.

use plimsoll_run::workload::{Empirical, LONGEST, TokenLength};
use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

use crate::error::{SourceError, shortened};
use crate::file;

/// Reads a token length as a person writes it: see [`TokenLength`], and `file:PATH` for a file of lengths.
///
/// # Errors
/// One line: what is wrong, and how to write it.
pub fn parse(text: &str) -> Result<TokenLength, String> {
    match text.trim().strip_prefix("file:") {
        Some(path) => read(path).map_err(|error| error.to_string()),
        None => text
            .parse()
            .map_err(|error: plimsoll_run::workload::TokenLengthError| error.to_string()),
    }
}

/// Reads a file of lengths: one a line, each with a weight after a comma where they are not alike. A first line without a
/// number is a heading; lines that begin with `#` are passed over.
///
/// # Errors
/// When it cannot be read or a line holds no length; the line is named.
pub fn read(path: &str) -> Result<TokenLength, SourceError> {
    let mut values = Vec::new();
    let mut first = true;
    file::for_each_line(path, |number, line| {
        if line.starts_with('#') {
            return Ok(true);
        }
        let (length, weight) = line.split_once([',', ';', '\t']).unwrap_or((line, "1"));
        let (length, weight) = (unquoted(length), unquoted(weight));
        if std::mem::take(&mut first) && length.parse::<f64>().is_err() && !length.is_empty() {
            return Ok(true);
        }
        let wrong = |problem: String| SourceError::line(path, number, problem);
        let tokens = length
            .parse::<f64>()
            .ok()
            .filter(|tokens| tokens.fract() == 0.0 && (1.0..=f64::from(LONGEST)).contains(tokens))
            .ok_or_else(|| {
                wrong(format!(
                    "`{}` is not a whole number of tokens from 1 to {LONGEST}",
                    shortened(length)
                ))
            })?;
        let weight = weight
            .parse::<f64>()
            .ok()
            .filter(|weight| (0.0..=1e12).contains(weight))
            .ok_or_else(|| wrong(format!("`{}` is not a weight from 0 to 1e12", shortened(weight))))?;
        values.push((tokens as u32, weight));
        Ok(true)
    })?;
    if values.is_empty() {
        return Err(SourceError::nothing(path, "no length"));
    }
    Empirical::new(values)
        .map(TokenLength::Empirical)
        .map_err(|error| SourceError::unreadable(path, error))
}

fn unquoted(cell: &str) -> &str {
    cell.trim().trim_matches('"').trim()
}

/// Many lengths in up to a hundred steps of equal weight, each with the mean of those in it, so that the mean of all stays
/// what it is within a token; `None` of none.
pub(crate) fn condensed(lengths: impl IntoIterator<Item = u32>) -> Option<TokenLength> {
    const STEPS: usize = 100;
    let mut sorted: Vec<u32> = lengths.into_iter().collect();
    sorted.sort_unstable();
    let values: Vec<(u32, f64)> = (0..STEPS)
        .filter_map(|step| {
            let of = &sorted[step * sorted.len() / STEPS..(step + 1) * sorted.len() / STEPS];
            let sum: f64 = of.iter().copied().map(f64::from).sum();
            // A mean of lengths is one.
            (!of.is_empty()).then(|| ((sum / of.len() as f64).round() as u32, of.len() as f64))
        })
        .collect();
    match values.as_slice() {
        [(only, _)] => Some(TokenLength::Fixed(*only)),
        _ => Empirical::new(values).map(TokenLength::Empirical).ok(),
    }
}

/// Draws a length, at least 1.
#[must_use]
pub fn draw(length: &TokenLength, generator: &mut StdRng) -> u32 {
    let mut normal = || -> f64 { StandardNormal.sample(generator) };
    match length {
        TokenLength::Fixed(tokens) => *tokens,
        // Casts saturate; a reply or prompt has at least one token.
        TokenLength::Normal { mean, stddev } => {
            ((f64::from(*mean) + stddev * normal()).round() as u32).max(1)
        }
        TokenLength::LogNormal { mean, sigma, most } => {
            let mu = f64::from(*mean).ln() - sigma * sigma / 2.0;
            ((mu + sigma * normal()).exp().round() as u32)
                .clamp(1, most.unwrap_or(plimsoll_run::workload::LONGEST))
        }
        TokenLength::Uniform { least, most } => generator.random_range(*least..=*most),
        TokenLength::Empirical(empirical) => empirical.quantile(generator.random()),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn drawn(text: &str, n: usize) -> Vec<u32> {
        let length = text.parse().unwrap();
        let mut generator = StdRng::seed_from_u64(3);
        let mut drawn: Vec<u32> = (0..n).map(|_| draw(&length, &mut generator)).collect();
        drawn.sort_unstable();
        drawn
    }

    fn mean(of: &[u32]) -> f64 {
        of.iter().map(|x| f64::from(*x)).sum::<f64>() / of.len() as f64
    }

    fn quantile(sorted: &[u32], p: f64) -> f64 {
        f64::from(sorted[(p * sorted.len() as f64) as usize])
    }

    /// Means within five standard errors, quantiles within five of theirs, sqrt(p(1-p)/n)/f.
    #[test]
    fn draws_have_the_mean_and_the_quantiles_of_their_law() {
        const N: usize = 20_000;
        let n = N as f64;
        // z at 0.95 is 1.644854, with a density of 0.103136 there.
        let normal = drawn("1000:100", N);
        assert!(
            (mean(&normal) - 1000.0).abs() < 5.0 * 100.0 / n.sqrt(),
            "{}",
            mean(&normal)
        );
        let p95 = quantile(&normal, 0.95);
        assert!(
            (p95 - 1164.5).abs() < 5.0 * 100.0 * (0.95 * 0.05 / n).sqrt() / 0.1031,
            "{p95}"
        );

        // mu = ln 1000 - 0.32 = 6.587755: median 726.15, p95 exp(mu + 1.644854*0.8) = 2706.9.
        let lognormal = drawn("lognormal:1000:0.8", N);
        let deviation = 1000.0 * (0.64_f64.exp() - 1.0).sqrt();
        assert!(
            (mean(&lognormal) - 1000.0).abs() < 5.0 * deviation / n.sqrt(),
            "{}",
            mean(&lognormal)
        );
        let median = quantile(&lognormal, 0.5);
        // Density of the logarithm at its median: 0.398942/0.8.
        assert!(
            (median / 726.15).ln().abs() < 5.0 * (0.25 / n).sqrt() * 0.8 / 0.3989,
            "{median}"
        );
        let p95 = quantile(&lognormal, 0.95);
        assert!(
            (p95 / 2706.9).ln().abs() < 5.0 * (0.0475 / n).sqrt() * 0.8 / 0.1031,
            "{p95}"
        );

        // ln 2000 lies (7.600902 - 6.587755)/0.8 = 1.266434 deviations up: a share of 0.10268 is cut off there.
        let cut = drawn("lognormal:1000:0.8:2000", N);
        assert_eq!(cut.last(), Some(&2000));
        let share = cut.iter().filter(|x| **x == 2000).count() as f64 / n;
        assert!(
            (share - 0.1027).abs() < 5.0 * (0.1027 * 0.8973 / n).sqrt(),
            "{share}"
        );

        let die = drawn("uniform:1-6", N);
        for face in 1..=6 {
            let share = die.iter().filter(|x| **x == face).count() as f64 / n;
            assert!(
                (share - 1.0 / 6.0).abs() < 5.0 * (5.0 / 36.0 / n).sqrt(),
                "{face}: {share}"
            );
        }

        let given = drawn("empirical:10@1,20@2,30@1", N);
        for (length, weight) in [(10, 0.25), (20, 0.5), (30, 0.25)] {
            let share = given.iter().filter(|x| **x == length).count() as f64 / n;
            assert!(
                (share - weight).abs() < 5.0 * (weight * (1.0 - weight) / n).sqrt(),
                "{length}: {share}"
            );
        }
        assert!(drawn("17", 10).iter().all(|x| *x == 17));
    }

    #[test]
    fn files_of_lengths_are_read_and_bad_lines_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lengths.csv");
        let file = path.to_str().unwrap();
        for (bytes, expected) in [
            ("5\n5\n7\n".as_bytes(), Ok("empirical:5@2,7")),
            (
                b"\xef\xbb\xbflength,weight\r\n10,3\r\n\r\n20,1\r\n",
                Ok("empirical:10@3,20"),
            ),
            (b"# mine\n3;0.5\n4;0.25", Ok("empirical:3@0.5,4@0.25")),
            (b"5\nx\n", Err("line 2: `x` is not a whole number")),
            (b"5\n0\n", Err("line 2")),
            (b"5\n-3\n", Err("line 2")),
            (b"5\n1e400\n", Err("line 2")),
            (b"5\nnan\n", Err("line 2")),
            (b"5,nan\n", Err("line 1: `nan` is not a weight")),
            (b"5\n2.5\n", Err("line 2")),
            (b"\n\n", Err("no length")),
            (b"", Err("there is nothing in it")),
            (b"5\n\xff\xfe\x00\n", Err("line 2: it is not UTF-8")),
        ] {
            std::fs::write(&path, bytes).unwrap();
            match (parse(&format!("file:{file}")), expected) {
                (Ok(length), Ok(expected)) => assert_eq!(length.to_string(), expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{expected}: {error}"),
                (got, _) => panic!("{bytes:?}: {got:?}"),
            }
        }
        assert!(
            parse("file:/nowhere/at/all")
                .unwrap_err()
                .contains("/nowhere/at/all")
        );
        assert!(
            parse(&format!("file:{}", folder.path().display()))
                .unwrap_err()
                .contains("not a file")
        );
    }

    #[test]
    fn condensed_lengths_keep_their_mean() {
        let many = condensed((1..=10_000).map(|n| n * n % 7919 + 1)).unwrap();
        let exact = (1..=10_000_u64).map(|n| (n * n % 7919 + 1) as f64).sum::<f64>() / 1e4;
        assert!((many.mean() - exact).abs() < 0.5, "{} {exact}", many.mean());
        assert_eq!(condensed([7]), Some(TokenLength::Fixed(7)));
        assert_eq!(condensed([5, 5, 5]).unwrap().mean(), 5.0);
        assert_eq!(condensed([]), None);
    }

    #[test]
    fn no_draw_is_below_one_token() {
        for wide in ["2:50", "lognormal:1:5", "lognormal:10000000:5"] {
            assert!(
                drawn(wide, 500).iter().all(|x| (1..=10_000_000).contains(x)),
                "{wide}"
            );
        }
    }
}

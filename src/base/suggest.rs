//! The nearest known word to one that was misspelt, for "did you mean" hints.

/// The candidate that `word` most likely stands for, if one is close enough.
///
/// Case, `_` and `-` do not count; up to a third of the letters (at least one) may differ.
#[must_use]
pub fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = folded(word);
    // Long keys are not typing slips, and the comparison is quadratic.
    if word.len() > 64 {
        return None;
    }
    let allowed = (word.len() / 3).max(1);
    candidates
        .iter()
        .map(|candidate| (distance(&word, &folded(candidate)), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Edit distance where swapping two neighbours costs one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    const KEYS: &[&str] = &["type", "url", "headers", "timeoutMs", "command"];

    #[test]
    fn slips_find_their_word() {
        assert_eq!(closest("tpye", KEYS), Some("type"));
        assert_eq!(closest("uri", KEYS), Some("url"));
        assert_eq!(closest("header", KEYS), Some("headers"));
        assert_eq!(closest("timeout", KEYS), Some("timeoutMs"));
        assert_eq!(closest("timeout_ms", KEYS), Some("timeoutMs"));
    }

    #[test]
    fn other_words_find_nothing() {
        assert_eq!(closest("cwd", KEYS), None);
        assert_eq!(closest("", KEYS), None);
        assert_eq!(closest(&"x".repeat(100_000), KEYS), None);
    }
}

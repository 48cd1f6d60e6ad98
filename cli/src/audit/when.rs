//! Times of the trail, in UTC, written and read without a calendar library.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// Now, in milliseconds since 1970.
pub(super) fn now() -> u64 {
    // A clock before 1970 counts as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-01-31T10:00:00.123Z`.
pub(super) fn long(time_ms: u64) -> String {
    let (date, seconds) = split(time_ms);
    format!("{date}T{}.{:03}Z", clock(seconds), time_ms % 1000)
}

/// `2026-01-31 10:00:00`.
pub(super) fn short(time_ms: u64) -> String {
    let (date, seconds) = split(time_ms);
    format!("{date} {}", clock(seconds))
}

/// `12ms`, `3.4s`, `2m05s`.
pub(super) fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!("{}m{:02}s", milliseconds / 60_000, milliseconds % 60_000 / 1000),
    }
}

/// Reads a date, a date and a time, or an age before `now`.
pub(super) fn parse(text: &str, now: u64) -> Option<u64> {
    age(text).map(|age| now.saturating_sub(age)).or_else(|| moment(text))
}

fn age(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => DAY,
        _ => return None,
    };
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    count.checked_mul(seconds)?.checked_mul(1000)
}

fn moment(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let [year, month, day] = numbers(date, '-')?;
    let time = if time.matches(':').count() == 1 { format!("{time}:00") } else { time.to_owned() };
    let (time, fraction) = time.split_once('.').unwrap_or((&time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let milliseconds: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let valid = (1970..10_000).contains(&year) && (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    if !valid || !(1..=month_length(year, month)).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some(seconds * 1000 + milliseconds)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let parts = text.split(separator).map(|part| {
        let digits = !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    parts.collect::<Option<Vec<u64>>>()?.try_into().ok()
}

fn split(time_ms: u64) -> (String, u64) {
    let seconds = time_ms / 1000;
    // Times beyond the supported range come from a broken clock.
    let mut left = (seconds / DAY).min(days(9999, 12, 31));
    let mut year = 1970;
    while left >= year_length(year) {
        left -= year_length(year);
        year += 1;
    }
    let mut month = 1;
    while left >= month_length(year, month) {
        left -= month_length(year, month);
        month += 1;
    }
    (format!("{year:04}-{month:02}-{:02}", left + 1), seconds % DAY)
}

fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds % 3600 / 60, seconds % 60)
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    (1970..year).map(year_length).sum::<u64>() + (1..month).map(|month| month_length(year, month)).sum::<u64>() + day
        - 1
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn year_length(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_length(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (time, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_600_010, "2026-01-01T00:00:00.010Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        ] {
            assert_eq!(long(time), text);
            assert_eq!(parse(text, 0), Some(time));
        }
        assert_eq!(parse("2026-01-01", 0), Some(1_767_225_600_000));
        assert_eq!(parse("2026-01-01 10:30", 0), Some(1_767_263_400_000));
        assert_eq!(parse("2h", 10_000_000), Some(2_800_000));
        for text in
            ["", "x", "h", "-1h", "2026", "2026-02-29", "2026-13-01", "2026-01-01T24:00", "99999999999999999999d", "é"]
        {
            assert_eq!(parse(text, 0), None, "{text}");
        }
        assert!(long(u64::MAX).starts_with("9999-12-31"));
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([5, 3400, 125_000].map(duration), ["5ms", "3.4s", "2m05s"]);
    }
}

//! Times of the calendar: stamps of ISO 8601 as exact whole numbers, so that their differences are exact too.

/// Parts of a second in which stamps are counted.
pub(super) const TICKS: i128 = 1_000_000_000_000;

/// Seconds by which clocks are set forward in spring and back in autumn.
pub(super) const SUMMER_TIME: f64 = 3600.0;

/// A point of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Ticks of 1e-12 s since 1970-01-01T00:00 of its zone, or since midnight where there is no date.
    pub(super) ticks: i128,
    /// What is known besides.
    pub(super) kind: StampKind,
}

/// What a stamp says; stamps of different kinds cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StampKind {
    /// A date, with a time, and where it is told: the ticks are those of Greenwich.
    Zoned,
    /// A date, with or without a time, in a zone that is not told.
    Local,
    /// A time of the day.
    Clock,
}

impl Stamp {
    /// Seconds since another stamp of the same kind, rounded once.
    pub(super) fn since(self, origin: Self) -> f64 {
        seconds(self.ticks - origin.ticks)
    }

    /// The same point of time on a clock that was set forward by these seconds.
    fn set_forward(self, seconds: f64) -> Self {
        Self { ticks: self.ticks + seconds as i128 * TICKS, ..self }
    }

    /// Whether it is a Sunday, on which clocks are set forward where this is done in the small hours.
    fn is_sunday(self) -> bool {
        // The first day of 1970 was a Thursday.
        self.ticks.div_euclid(86400 * TICKS).rem_euclid(7) == 3
    }

    /// Reads `2024-03-01`, `2024-03-01T12:30:00.25`, the same with a space or a zone (`Z`, `+01:00`), or `12:30:00`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(ticks) = clock(text) {
            return Some(Self { ticks, kind: StampKind::Clock });
        }
        let (date, rest) = match text.split_once(['T', 't', ' ']) {
            Some((date, rest)) => (date, Some(rest.trim_start())),
            None => (text, None),
        };
        let days = day_number(date)?;
        let midnight = i128::from(days) * 86400 * TICKS;
        let Some(rest) = rest else { return Some(Self { ticks: midnight, kind: StampKind::Local }) };
        let (time, offset) = match rest.strip_suffix(['Z', 'z']) {
            Some(time) => (time.trim_end(), Some(0)),
            None => match rest.rfind(['+', '-']) {
                Some(at) => (rest[..at].trim_end(), Some(zone(&rest[at..])?)),
                None => (rest, None),
            },
        };
        let kind = if offset.is_some() { StampKind::Zoned } else { StampKind::Local };
        let ticks = midnight + clock(time)? - i128::from(offset.unwrap_or(0)) * 60 * TICKS;
        Some(Self { ticks, kind })
    }
}

impl Stamp {
    /// Reads a time as a pattern in the letters of `strptime` says: `%Y`, `%y` (2000 to 2099), `%m`, `%b` (English), `%d`,
    /// `%H`, `%I` with `%p`, `%M`, `%S` with or without a fraction, `%%`; a space stands for any number of them.
    #[must_use]
    pub fn parse_as(text: &str, pattern: &str) -> Option<Self> {
        let (mut rest, mut pattern) = (text.trim(), pattern.trim().chars());
        let [mut year, mut month, mut day] = [None; 3];
        let [mut hour, mut minute] = [0i64; 2];
        let (mut ticks, mut afternoon) = (0i128, None);
        let take = |rest: &mut &str, most: usize| {
            let n = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
            let (number, after) = rest.split_at(n);
            *rest = after;
            digits(number)
        };
        while let Some(letter) = pattern.next() {
            match letter {
                '%' => match pattern.next()? {
                    'Y' => year = Some(take(&mut rest, 4)?),
                    'y' => year = Some(2000 + take(&mut rest, 2)?),
                    'm' => month = Some(take(&mut rest, 2)?),
                    'd' => day = Some(take(&mut rest, 2)?),
                    'b' => {
                        let word = rest.get(..3)?.to_ascii_lowercase();
                        month = Some(MONTHS.iter().position(|known| *known == word)? as i64 + 1);
                        rest = &rest[3..];
                    }
                    'H' | 'I' => hour = take(&mut rest, 2)?,
                    'M' => minute = take(&mut rest, 2)?,
                    'S' => {
                        let n = rest
                            .bytes()
                            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','))
                            .count();
                        ticks = clock(&format!("0:00:{}", &rest[..n]))?;
                        rest = &rest[n..];
                    }
                    'p' => {
                        afternoon = Some(match rest.get(..2)?.to_ascii_lowercase().as_str() {
                            "am" => false,
                            "pm" => true,
                            _ => return None,
                        });
                        rest = &rest[2..];
                    }
                    '%' => rest = rest.strip_prefix('%')?,
                    _ => return None,
                },
                letter if letter.is_whitespace() => rest = rest.trim_start(),
                letter => rest = rest.strip_prefix(letter)?,
            }
        }
        if let Some(is_afternoon) = afternoon {
            hour = hour % 12 + if is_afternoon { 12 } else { 0 };
        }
        if !rest.is_empty() || hour > 24 || minute > 59 {
            return None;
        }
        let since_midnight = i128::from(hour * 3600 + minute * 60) * TICKS + ticks;
        match (year, month, day) {
            (None, None, None) => Some(Self { ticks: since_midnight, kind: StampKind::Clock }),
            (Some(year), Some(month), Some(day)) => {
                let days = day_number(&format!("{year:04}-{month:02}-{day:02}"))?;
                Some(Self { ticks: i128::from(days) * 86400 * TICKS + since_midnight, kind: StampKind::Local })
            }
            _ => None,
        }
    }
}

/// A clock that is set back from summer time in autumn, when an hour comes twice, and forward in spring, when an hour is
/// left out.
///
/// A step back by less than an hour is the change if it is one by half an hour at least, or if an hour more makes a step
/// like the one before: a row that came late by seconds is none. An hour that is left out is the change if it is a
/// Sunday's and the step else is the one before; any other may be an outage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangingClock {
    /// What is added to its stamps now.
    added: f64,
    /// The stamp before, that added, and the step to it.
    before: Option<(Stamp, f64)>,
}

impl ChangingClock {
    /// A stamp of the clock as one of a clock that is never changed.
    pub(super) fn steady(&mut self, stamp: Stamp) -> Stamp {
        let mut found = stamp.set_forward(self.added);
        let mut step = f64::INFINITY;
        if let Some((before, last_step)) = self.before {
            step = found.since(before);
            let (later, earlier) = (step + SUMMER_TIME, step - SUMMER_TIME);
            let is_usual = |step: f64| step <= 1.5 * last_step && last_step.is_finite();
            let is_set_back = step <= 0.0 && later > 0.0 && (later <= 0.5 * SUMMER_TIME || is_usual(later));
            let is_set_forward = earlier > 0.0 && stamp.is_sunday() && (earlier - last_step).abs() <= 0.01 * last_step;
            let change = if is_set_back {
                SUMMER_TIME
            } else if is_set_forward {
                -SUMMER_TIME
            } else {
                0.0
            };
            self.added += change;
            step += change;
            found = stamp.set_forward(self.added);
        }
        self.before = Some((found, step));
        found
    }
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Patterns that read a time, the likelier first: two where day and month cannot be told apart.
#[must_use]
pub fn guess(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A year of two digits is none of the first century.
    let has_year = text.split(|it: char| !it.is_ascii_digit()).any(|digits| digits.len() == 4);
    for date in [
        "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d-%b-%Y", "%b %d %Y", "%d %b %Y", "%Y/%m/%d", "%Y.%m.%d",
        "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
    ] {
        for time in ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p"] {
            let pattern = format!("{date}{time}");
            let may_be = has_year || !pattern.contains("%Y");
            if may_be && Stamp::parse_as(text, &pattern).is_some() {
                found.push(pattern);
            }
        }
    }
    found
}

/// Ticks as seconds: the reduced fraction, which is rounded once where doubles hold its parts.
pub(super) fn seconds(ticks: i128) -> f64 {
    let (mut common, mut rest) = (TICKS, ticks.abs());
    while rest != 0 {
        (common, rest) = (rest, common % rest);
    }
    (ticks / common) as f64 / (TICKS / common) as f64
}

/// Days since 1970-01-01 in the Gregorian calendar, from `year-month-day` or `yearmonthday`; the years of its era of
/// 400 begin with March.
fn day_number(text: &str) -> Option<i64> {
    let is_basic = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = if is_basic { vec![&text[..4], &text[4..6], &text[6..]] } else { text.split('-').collect() };
    let [year, month, day] = parts[..] else { return None };
    if year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return None;
    }
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if !(1..=12).contains(&month) || day < 1 || day > lengths[month as usize - 1] {
        return None;
    }
    let march_year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468)
}

/// Ticks since midnight of `hh:mm`, `hh:mm:ss` or `hh:mm:ss.fraction`.
fn clock(text: &str) -> Option<i128> {
    let mut parts = text.split(':');
    let (hours, minutes) = (parts.next()?, parts.next()?);
    let second = parts.next().unwrap_or("0");
    if parts.next().is_some() || hours.is_empty() || hours.len() > 2 || minutes.len() != 2 {
        return None;
    }
    let (whole, fraction) = second.split_once(['.', ',']).unwrap_or((second, ""));
    let (hours, minutes, whole) = (digits(hours)?, digits(minutes)?, digits(whole)?);
    if hours > 24 || minutes > 59 || whole > 60 || fraction.len() > 12 {
        return None;
    }
    let fraction =
        if fraction.is_empty() { 0 } else { i128::from(digits(fraction)?) * 10i128.pow(12 - fraction.len() as u32) };
    Some(i128::from(hours * 3600 + minutes * 60 + whole) * TICKS + fraction)
}

/// Minutes east of Greenwich of `+01:00`, `+0100` or `-05`.
fn zone(text: &str) -> Option<i64> {
    let (sign, rest) = (if text.starts_with('-') { -1 } else { 1 }, text.get(1..)?);
    let (hours, minutes) = match rest.split_once(':') {
        Some(pair) => pair,
        None => (rest.get(..2)?, rest.get(2..)?),
    };
    let minutes = if minutes.is_empty() { 0 } else { digits(minutes)? };
    Some(sign * (digits(hours)? * 60 + minutes))
}

fn digits(text: &str) -> Option<i64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(first: &str, second: &str) -> f64 {
        Stamp::parse(second).unwrap().since(Stamp::parse(first).unwrap())
    }

    #[test]
    fn differences_of_stamps_are_exact() {
        assert_eq!(between("2024-02-28T23:59:59.9", "2024-03-01T00:00:00"), 86400.1);
        assert_eq!(between("2023-02-28 23:59:59.9", "2023-03-01 00:00:00,0"), 0.1);
        assert_eq!(between("2024-03-01T12:00:00+01:00", "2024-03-01T11:00:00Z"), 0.0);
        assert_eq!(between("2024-03-01T12:00:00-0530", "2024-03-01T17:30:01Z"), 1.0);
        assert_eq!(between("1970-01-01", "2000-03-01"), 951_868_800.0);
        assert_eq!(between("12:00", "12:00:00.0398"), 0.0398);
    }

    #[test]
    fn stamps_in_the_style_of_a_country_are_read_as_said_and_guessed() {
        let read = |text: &str, pattern: &str| Stamp::parse_as(text, pattern);
        let expected = Stamp::parse("2024-03-01T12:30:00.25");
        for (text, pattern) in [
            ("01.03.2024 12:30:00.25", "%d.%m.%Y %H:%M:%S"),
            ("3/1/2024 12:30:00,25 PM", "%m/%d/%Y %I:%M:%S %p"),
            ("01-Mar-2024  12:30:00.25", "%d-%b-%Y %H:%M:%S"),
            ("24/03/01 12:30:00.25", "%y/%m/%d %H:%M:%S"),
        ] {
            assert_eq!(read(text, pattern), expected, "{text}");
        }
        assert_eq!(read("31.02.2024", "%d.%m.%Y"), None);
        assert_eq!(read("01.03.2024 x", "%d.%m.%Y"), None);
        assert_eq!(guess("13.03.2024 12:30"), ["%d.%m.%Y %H:%M"]);
        assert_eq!(guess("3/14/2024 1:30 AM"), ["%m/%d/%Y %I:%M %p"]);
        assert_eq!(guess("3/4/2024"), ["%d/%m/%Y", "%m/%d/%Y"]);
        assert!(guess("yesterday").is_empty());
    }

    /// The hour from 2 to 3 comes twice in October and not at all in March; a row that is late by seconds is no change.
    #[test]
    fn clocks_with_summer_time_become_steady() {
        let seconds = |texts: &[&str]| -> Vec<f64> {
            let mut clock = ChangingClock::default();
            let stamps: Vec<Stamp> = texts.iter().map(|text| clock.steady(Stamp::parse(text).unwrap())).collect();
            stamps.iter().map(|stamp| stamp.since(stamps[0])).collect()
        };
        let autumn =
            ["2024-10-27 02:30", "2024-10-27 02:50", "2024-10-27 02:10", "2024-10-27 02:30", "2024-10-27 03:10"];
        assert_eq!(seconds(&autumn), [0.0, 1200.0, 2400.0, 3600.0, 6000.0]);
        let hourly = ["2024-10-27 01:00", "2024-10-27 02:00", "2024-10-27 02:00", "2024-10-27 03:00"];
        assert_eq!(seconds(&hourly), [0.0, 3600.0, 7200.0, 10800.0]);
        let spring = ["2025-03-30 01:40", "2025-03-30 01:50", "2025-03-30 03:00", "2025-03-30 03:10"];
        assert_eq!(seconds(&spring), [0.0, 600.0, 1200.0, 1800.0]);
        let late = ["2024-10-27 02:30:00", "2024-10-27 02:30:10", "2024-10-27 02:30:09", "2024-10-27 02:30:20"];
        assert_eq!(seconds(&late), [0.0, 10.0, 9.0, 20.0]);
        let outage = ["2025-03-26 01:40", "2025-03-26 01:50", "2025-03-26 03:00"];
        assert_eq!(seconds(&outage), [0.0, 600.0, 4800.0]);
    }

    #[test]
    fn other_words_are_no_stamps() {
        for text in ["", "1.5", "01.03.2024", "3/1/2024", "2024-13-01", "2023-02-29", "2024-03-01T25:61", "20240301T"] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }
}

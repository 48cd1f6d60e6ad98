//! Options as GNU and BSD programs parse them, checked against an allow list.

/// Why a command is not known as safe.
pub(super) type Judged = Result<(), String>;

/// The options that a program may be given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Short options without a value; they may be clustered.
    pub(super) flags: &'static str,
    /// Short options with a value, attached or in the next word.
    pub(super) values: &'static str,
    /// Short options with an optional attached number: the next word does not belong to them.
    pub(super) glued: &'static str,
    /// Long options without a value, or with an optional one after `=`.
    pub(super) long: &'static [&'static str],
    /// Long options with a value, after `=` or in the next word.
    pub(super) long_values: &'static [&'static str],
    /// Whether `-5` means `-n 5`.
    pub(super) number: bool,
}

/// A command's arguments, separated into options and operands.
#[derive(Debug, Default)]
pub(super) struct Given<'w> {
    pub(super) operands: Vec<&'w str>,
    /// Short option letters and long option names, in order.
    pub(super) options: Vec<&'w str>,
}

impl Allowed {
    /// Separates options and operands. Options may follow operands, `--` ends them. Abbreviated options are refused:
    /// `--outp` is `--output` to GNU programs.
    pub(super) fn read<'w>(&self, arguments: &[&'w str]) -> Result<Given<'w>, String> {
        let mut given = Given::default();
        let mut rest = arguments.iter().copied();
        while let Some(word) = rest.next() {
            if word == "--" {
                given.operands.extend(rest);
                break;
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, glued) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
                if self.long_values.contains(&name) {
                    if !glued && rest.next().is_none() {
                        return Err(format!("`{word}` lacks its value"));
                    }
                } else if !self.long.contains(&name) {
                    return Err(format!("`{word}` is not known as safe"));
                }
                given.options.push(name);
            } else if let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
                self.cluster(word, cluster, &mut rest, &mut given)?;
            } else {
                given.operands.push(word);
            }
        }
        Ok(given)
    }

    fn cluster<'w>(
        &self,
        word: &str,
        cluster: &'w str,
        rest: &mut impl Iterator<Item = &'w str>,
        given: &mut Given<'w>,
    ) -> Judged {
        if self.number && cluster.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        for (at, letter) in cluster.char_indices() {
            let after = at + letter.len_utf8();
            given.options.push(cluster.get(at..after).unwrap_or_default());
            if self.values.contains(letter) {
                if after == cluster.len() && rest.next().is_none() {
                    return Err(format!("`{word}` lacks its value"));
                }
                return Ok(());
            }
            if self.glued.contains(letter) {
                let number = cluster.get(after..).unwrap_or_default().bytes().all(|byte| byte.is_ascii_digit());
                return if number { Ok(()) } else { Err(format!("`{word}` is not known as safe")) };
            }
            if !self.flags.contains(letter) {
                return Err(format!("`{word}` is not known as safe"));
            }
        }
        Ok(())
    }
}

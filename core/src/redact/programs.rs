//! Programs that take a secret where no name gives it away.

/// What of a word is secret.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Secret {
    /// All of it.
    Whole,
    /// What follows the first colon.
    BehindColon,
}

/// The options of one kind of program that take a secret.
struct Options {
    programs: &'static [&'static str],
    /// A word that the command has to have, as `docker login` does.
    only_with: Option<&'static str>,
    /// Options whose next word is secret.
    next: &'static [(&'static str, Secret)],
    /// Options that the secret is attached to.
    attached: &'static [(&'static str, Secret)],
}

#[rustfmt::skip]
const OPTIONS: &[Options] = &[
    Options { programs: &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlcheck", "mariadb", "mariadb-dump", "mariadb-admin"],
        only_with: None, next: &[], attached: &[("-p", Secret::Whole)] },
    Options { programs: &["curl"], only_with: None,
        next: &[("-u", Secret::BehindColon), ("--user", Secret::BehindColon), ("-U", Secret::BehindColon),
                ("--proxy-user", Secret::BehindColon), ("--oauth2-bearer", Secret::Whole), ("-b", Secret::Whole), ("--cookie", Secret::Whole)],
        attached: &[("-u", Secret::BehindColon), ("--user=", Secret::BehindColon), ("--proxy-user=", Secret::BehindColon),
                    ("--oauth2-bearer=", Secret::Whole)] },
    Options { programs: &["http", "https", "xh"], only_with: None,
        next: &[("-a", Secret::BehindColon), ("--auth", Secret::BehindColon)], attached: &[("--auth=", Secret::BehindColon)] },
    Options { programs: &["sshpass"], only_with: None, next: &[("-p", Secret::Whole)], attached: &[("-p", Secret::Whole)] },
    Options { programs: &["docker", "podman", "buildah", "skopeo", "nerdctl", "helm", "az", "oc", "cf", "npm", "heroku", "oras", "crane"],
        only_with: Some("login"), next: &[("-p", Secret::Whole)], attached: &[] },
    Options { programs: &["redis-cli", "valkey-cli"], only_with: None, next: &[("-a", Secret::Whole), ("--pass", Secret::Whole)], attached: &[] },
    Options { programs: &["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], only_with: None,
        next: &[("-p", Secret::Whole)], attached: &[] },
    Options { programs: &["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd"], only_with: None,
        next: &[("-w", Secret::Whole)], attached: &[("-w", Secret::Whole)] },
    Options { programs: &["7z", "7za", "7zz", "rar", "unrar"], only_with: None, next: &[], attached: &[("-p", Secret::Whole), ("-hp", Secret::Whole)] },
    Options { programs: &["zip", "unzip", "sqlcmd", "ipmitool"], only_with: None, next: &[("-P", Secret::Whole)], attached: &[] },
    Options { programs: &["openssl"], only_with: None, next: &[("-k", Secret::Whole), ("-K", Secret::Whole)], attached: &[] },
    Options { programs: &["xfreerdp", "wlfreerdp"], only_with: None, next: &[], attached: &[("/p:", Secret::Whole)] },
];

/// The program of a command, as far as its options are known.
pub(super) struct Program(Option<&'static Options>);

impl Program {
    /// The program that a word names, in a command with these words.
    pub(super) fn of(word: &[u8], words: &[&[u8]]) -> Self {
        let name = word.rsplit(|c| *c == b'/').next().unwrap_or_default();
        Self(OPTIONS.iter().find(|options| {
            options.programs.iter().any(|program| program.as_bytes() == name)
                && options.only_with.is_none_or(|needed| words.contains(&needed.as_bytes()))
        }))
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// What the word behind this option hides.
    pub(super) fn expects(&self, option: &[u8]) -> Option<Secret> {
        self.0?.next.iter().find_map(|(name, secret)| (name.as_bytes() == option).then_some(*secret))
    }

    /// Where in this word the secret starts that its option takes.
    pub(super) fn attached(&self, word: &[u8]) -> Option<(usize, Secret)> {
        self.0?.attached.iter().find_map(|(option, secret)| {
            (word.len() > option.len() && word.starts_with(option.as_bytes())).then_some((option.len(), *secret))
        })
    }
}

//! Programs that take a secret without a telling name: their options and operands.

use Operands::{All, Nth, Pairs, Settings};
use Secret::{BehindColon, BehindComma, BehindEquals, BehindPercent, OracleLogin, Whole};

/// The secret part of a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Secret {
    /// All of it.
    Whole,
    /// The same, if it looks like a key.
    Opaque,
    /// After the first colon: `user:password`.
    BehindColon,
    /// After the first comma: `user,password`.
    BehindComma,
    /// After the first percent sign: `user%password`.
    BehindPercent,
    /// After the first equals sign: `name=value`.
    BehindEquals,
    /// Between the slash and the last at sign: `user/password@database`.
    OracleLogin,
}

/// Which operands are secret.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operands {
    /// One of them, counted from 0.
    Nth(usize, Secret),
    /// Each of them.
    All(Secret),
    /// The value of each `name=value`, with any name.
    Pairs,
    /// The one after the name of a secret: `password hunter2`.
    Settings,
}

/// The secrets in the arguments of one kind of program.
#[derive(Debug)]
pub(super) struct Usage {
    programs: &'static [&'static str],
    /// Words that have to come first, in this order, as in `docker login`.
    pub(super) verbs: &'static [&'static str],
    /// Short options with a secret value, attached or in the next word.
    pub(super) short: &'static [(u8, Secret)],
    /// Short options with a secret value only if it is attached.
    pub(super) glued: &'static [(u8, Secret)],
    /// Other short options with a value, after which no option follows in the same word.
    pub(super) values: &'static str,
    /// Long options as written, with their value after `=` or in the next word.
    pub(super) long: &'static [(&'static str, Secret)],
    /// Prefixes that are followed by a secret.
    pub(super) prefixes: &'static [&'static str],
    pub(super) operands: &'static [Operands],
}

const NONE: Usage =
    Usage { programs: &[], verbs: &[], short: &[], glued: &[], values: "", long: &[], prefixes: &[], operands: &[] };

const LOGINS: &[&str] = &[
    "docker",
    "podman",
    "buildah",
    "skopeo",
    "nerdctl",
    "helm",
    "az",
    "oc",
    "cf",
    "npm",
    "heroku",
    "oras",
    "crane",
    "expo",
    "eas",
    "ibmcloud",
    "argocd",
    "regctl",
    "copa",
    "bitwarden",
    "wrangler",
];
const SAMBA: &[&str] =
    &["smbclient", "smbget", "smbcacls", "smbpasswd", "rpcclient", "net", "winexe", "wmic", "smbtree"];
const KUBECTL: &[&str] = &["kubectl", "oc", "k3s", "microk8s.kubectl", "k"];
const FLY: &[&str] = &["fly", "flyctl"];
const NODE: &[&str] = &["npm", "yarn", "pnpm", "bun"];

#[rustfmt::skip]
const USAGES: &[Usage] = &[
    // Databases
    Usage { programs: &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlcheck", "mysqlsh", "mysqlslap", "mysqlpump",
        "mysqlbinlog", "mariadb", "mariadb-dump", "mariadb-admin", "mariadb-check", "mycli"], glued: &[(b'p', Whole)], values: "uhPDeSBrRW", ..NONE },
    Usage { programs: &["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "mongostat", "mongotop"],
        short: &[(b'p', Whole)], values: "uhdcoq", ..NONE },
    Usage { programs: &["cqlsh", "beeline", "hdbsql", "vsql", "nzsql"], short: &[(b'p', Whole), (b'w', Whole)], values: "undhkfeU", ..NONE },
    Usage { programs: &["sqlcmd", "bcp", "osql", "tsql", "mssql-cli", "mosquitto_pub", "mosquitto_sub", "ipmitool", "zip", "unzip", "zipcloak"],
        short: &[(b'P', Whole)], values: "SUdiQqoVHIhptmusnxbL", ..NONE },
    Usage { programs: &["sqlplus", "sqlplus64", "sqlldr", "exp", "imp", "expdp", "impdp", "sqlcl", "tnsping"], operands: &[Nth(0, OracleLogin)], ..NONE },
    Usage { programs: &["rman"], verbs: &["target"], operands: &[Nth(0, OracleLogin)], ..NONE },
    Usage { programs: &["db2"], verbs: &["using"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["redis-cli", "valkey-cli", "keydb-cli"], short: &[(b'a', Whole)], values: "hpnurisX", long: &[("--pass", Whole)],
        operands: &[Settings], ..NONE },
    Usage { programs: &["redis-cli", "valkey-cli", "keydb-cli"], verbs: &["AUTH"], operands: &[All(Whole)], ..NONE },
    Usage { programs: &["redis-cli", "valkey-cli", "keydb-cli"], verbs: &["auth"], operands: &[All(Whole)], ..NONE },
    Usage { programs: &["rabbitmqctl"], verbs: &["add_user"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["rabbitmqctl"], verbs: &["change_password"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["influx"], short: &[(b't', Whole)], values: "ob", ..NONE },
    // The web
    Usage { programs: &["curl"], short: &[(b'u', BehindColon), (b'U', BehindColon), (b'E', BehindColon), (b'b', BehindEquals)],
        values: "AcCdDeFHhKmoPQrtTwxXyYz",
        long: &[("--user", BehindColon), ("--proxy-user", BehindColon), ("--cert", BehindColon), ("--oauth2-bearer", Whole), ("--cookie", BehindEquals)], ..NONE },
    Usage { programs: &["http", "https", "xh", "xhs"], short: &[(b'a', BehindColon)], values: "Aophs", long: &[("--auth", BehindColon)], ..NONE },
    Usage { programs: &["lftp"], short: &[(b'u', BehindComma)], values: "pecf", long: &[("--user", BehindComma)], ..NONE },
    Usage { programs: &["ncftp", "ncftpput", "ncftpget", "ncftpls", "rdesktop", "psexec"], short: &[(b'p', Whole)], values: "uPdfmgckT", ..NONE },
    Usage { programs: &["swaks", "sendemail", "sendEmail"], long: &[("-ap", Whole), ("-xp", Whole)], ..NONE },
    // Hosts and directories
    Usage { programs: &["sshpass"], short: &[(b'p', Whole)], values: "fdP", ..NONE },
    Usage { programs: SAMBA, short: &[(b'U', BehindPercent)], values: "sIpRODTltAcLMWnmd", long: &[("--user", BehindPercent)], ..NONE },
    Usage { programs: &["net"], verbs: &["user"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami", "ldapmodrdn"],
        short: &[(b'w', Whole)], values: "DHbhpsafolzLeodFTyYUXR", ..NONE },
    Usage { programs: &["xfreerdp", "xfreerdp3", "wlfreerdp", "cmdkey"], prefixes: &["/p:", "/pass:"], ..NONE },
    Usage { programs: &["useradd", "usermod", "adduser"], short: &[(b'p', Whole)], values: "bcdefgGkKosuZ", ..NONE },
    Usage { programs: &["htpasswd"], verbs: &["-b"], operands: &[Nth(2, Whole)], ..NONE },
    Usage { programs: &["htpasswd"], verbs: &["-bc"], operands: &[Nth(2, Whole)], ..NONE },
    Usage { programs: &["htpasswd"], verbs: &["-cb"], operands: &[Nth(2, Whole)], ..NONE },
    Usage { programs: &["htpasswd"], verbs: &["-bB"], operands: &[Nth(2, Whole)], ..NONE },
    Usage { programs: &["htpasswd"], verbs: &["-nb"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["htpasswd"], verbs: &["-nbB"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["wpa_passphrase"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["nmcli", "rclone", "pdftk", "machine"], operands: &[Settings], ..NONE },
    Usage { programs: &["rclone"], verbs: &["obscure"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["security"], short: &[(b'w', Whole), (b'p', Whole), (b'P', Whole)], values: "aslkTtAUjDcCGf", ..NONE },
    Usage { programs: &["mc"], verbs: &["alias", "set"], operands: &[Nth(3, Whole)], ..NONE },
    Usage { programs: &["mc"], verbs: &["admin", "user", "add"], operands: &[Nth(2, Whole)], ..NONE },
    // Archives and keys
    Usage { programs: &["7z", "7za", "7zz", "7zr", "rar", "unrar"], glued: &[(b'p', Whole)], values: "motvxirwsa", ..NONE },
    Usage { programs: &["openssl"], long: &[("-k", Whole), ("-K", Whole)], ..NONE },
    Usage { programs: &["openssl"], verbs: &["passwd"], operands: &[All(Whole)], ..NONE },
    Usage { programs: &["ssh-keygen"], short: &[(b'N', Whole), (b'P', Whole)], values: "tbfCmcIDFGHJKLMnOrRSsTVWwYZza", ..NONE },
    Usage { programs: &["ansible-vault"], verbs: &["encrypt_string"], operands: &[Nth(0, Whole)], ..NONE },
    // Registries
    Usage { programs: LOGINS, verbs: &["login"], short: &[(b'p', Whole)], values: "ut", ..NONE },
    Usage { programs: &["cf"], verbs: &["auth"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["twine"], verbs: &["upload"], short: &[(b'p', Whole)], values: "uricS", ..NONE },
    Usage { programs: &["poetry"], verbs: &["publish"], short: &[(b'p', Whole)], values: "urC", ..NONE },
    Usage { programs: NODE, verbs: &["set"], operands: &[Settings], ..NONE },
    Usage { programs: &["poetry", "composer", "git", "gcloud", "doppler"], verbs: &["config"], operands: &[Settings], ..NONE },
    Usage { programs: &["aws", "doppler"], verbs: &["configure"], operands: &[Settings], ..NONE },
    Usage { programs: &["bundle", "bundler"], verbs: &["config"], operands: &[Nth(1, BehindColon)], ..NONE },
    Usage { programs: &["bundle", "bundler"], verbs: &["config", "set"], operands: &[Nth(1, BehindColon)], ..NONE },
    Usage { programs: &["cargo"], verbs: &["login"], operands: &[All(Whole)], ..NONE },
    Usage { programs: &["nuget", "choco"], verbs: &["setapikey"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["nuget", "choco"], verbs: &["apikey"], short: &[(b'k', Whole)], values: "s", ..NONE },
    Usage { programs: &["dotnet"], verbs: &["nuget"], short: &[(b'k', Whole), (b'p', Whole)], values: "usn", ..NONE },
    Usage { programs: &["dotnet"], verbs: &["user-secrets", "set"], operands: &[Nth(1, Whole)], ..NONE },
    // Forges, clouds and their secrets
    Usage { programs: &["gh"], verbs: &["secret", "set"], short: &[(b'b', Whole)], values: "eoRafruv", long: &[("--body", Whole)], ..NONE },
    Usage { programs: &["glab"], verbs: &["auth", "login"], short: &[(b't', Whole)], values: "hj", ..NONE },
    Usage { programs: &["glab"], verbs: &["variable", "set"], short: &[(b'v', Whole)], values: "gtsRd", long: &[("--value", Whole)], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["login"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["token"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["unwrap"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["unseal"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["kv", "put"], operands: &[Pairs], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["kv", "patch"], operands: &[Pairs], ..NONE },
    Usage { programs: &["vault", "bao"], verbs: &["write"], operands: &[Pairs], ..NONE },
    Usage { programs: &["aws"], verbs: &["secretsmanager"], long: &[("--secret-string", Whole), ("--secret-binary", Whole)], ..NONE },
    Usage { programs: &["aws"], verbs: &["ssm", "put-parameter"], long: &[("--value", Whole)], ..NONE },
    Usage { programs: &["az"], verbs: &["keyvault", "secret", "set"], long: &[("--value", Whole)], ..NONE },
    Usage { programs: KUBECTL, verbs: &["create", "secret"], long: &[("--from-literal", BehindEquals)], ..NONE },
    Usage { programs: FLY, verbs: &["secrets", "set"], operands: &[Pairs], ..NONE },
    Usage { programs: &["doppler"], verbs: &["secrets", "set"], operands: &[Pairs, Nth(1, Whole)], ..NONE },
    Usage { programs: &["supabase"], verbs: &["secrets", "set"], operands: &[Pairs], ..NONE },
    Usage { programs: &["pulumi"], verbs: &["config", "set", "--secret"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["doctl"], verbs: &["auth", "init"], short: &[(b't', Whole)], ..NONE },
    Usage { programs: &["vercel"], short: &[(b't', Whole)], values: "AbeSm", ..NONE },
    Usage { programs: &["ngrok"], verbs: &["authtoken"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["ngrok"], verbs: &["add-authtoken"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["snyk"], verbs: &["auth"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["cloudflared"], verbs: &["service", "install"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["bw"], verbs: &["login"], operands: &[Nth(1, Whole)], ..NONE },
    Usage { programs: &["bw"], verbs: &["unlock"], operands: &[Nth(0, Whole)], ..NONE },
    Usage { programs: &["op"], verbs: &["signin"], operands: &[Nth(2, Whole)], ..NONE },
    Usage { programs: &["op"], long: &[("--session", Whole)], ..NONE },
    Usage { programs: &["gem"], verbs: &["push"], short: &[(b'k', Whole)], values: "", long: &[("--key", Whole)], ..NONE },
    Usage { programs: &["mysqladmin", "mariadb-admin"], verbs: &["password"], operands: &[Nth(0, Whole)], ..NONE },
];

/// Programs that start others and use the same letters for their own options.
const CONNECTING: &[&str] = &["ssh", "scp", "sftp", "rsync", "mosh"];

/// The usages that apply to a command, as far as its words were read.
#[derive(Debug, Default)]
pub(super) struct Programs(Vec<Reading>);

/// One usage, and its state.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) usage: &'static Usage,
    verbs: usize,
    pub(super) operands: usize,
}

impl Programs {
    /// Takes a word that is not an option's value, and counts it as an operand for each complete usage.
    pub(super) fn take(&mut self, word: &[u8]) {
        let name = word.rsplit(|c| *c == b'/').next().unwrap_or_default();
        for reading in &mut self.0 {
            match reading.usage.verbs.get(reading.verbs) {
                Some(verb) if verb.as_bytes() == word => reading.verbs += 1,
                Some(_) => {}
                None if word.starts_with(b"-") => {}
                None => reading.operands += 1,
            }
        }
        if CONNECTING.iter().any(|program| program.as_bytes() == name) {
            self.0.clear();
        }
        let known = USAGES.iter().filter(|usage| usage.programs.iter().any(|program| program.as_bytes() == name));
        for usage in known {
            if !self.0.iter().any(|reading| std::ptr::eq(reading.usage, usage)) {
                self.0.push(Reading { usage, verbs: 0, operands: 0 });
            }
        }
    }

    /// Whether this word is the next verb of a usage.
    pub(super) fn await_verb(&self, word: &[u8]) -> bool {
        let next = |reading: &Reading| reading.usage.verbs.get(reading.verbs).map(|verb| verb.as_bytes());
        self.0.iter().any(|reading| next(reading) == Some(word))
    }

    /// The usages whose verbs have all been read.
    pub(super) fn complete(&self) -> impl Iterator<Item = &Reading> {
        self.0.iter().filter(|reading| reading.verbs == reading.usage.verbs.len())
    }
}

impl Usage {
    /// The start of the secret in a word of short options, or in the next word.
    pub(super) fn cluster(&self, word: &[u8]) -> Option<(Option<usize>, Secret)> {
        let letters = word.strip_prefix(b"-").filter(|letters| !letters.starts_with(b"-"))?;
        for (at, letter) in letters.iter().enumerate() {
            let has_value = at + 1 < letters.len();
            let find = |list: &[(u8, Secret)]| list.iter().find_map(|(own, secret)| (own == letter).then_some(*secret));
            if let Some(secret) = find(self.short) {
                return Some((has_value.then_some(at + 2), secret));
            }
            if let Some(secret) = find(self.glued).filter(|_| has_value) {
                return Some((Some(at + 2), secret));
            }
            if self.values.as_bytes().contains(letter) || !letter.is_ascii_alphanumeric() {
                return None;
            }
        }
        None
    }

    /// Like `cluster`, for a long option.
    pub(super) fn option(&self, word: &[u8]) -> Option<(Option<usize>, Secret)> {
        self.long.iter().find_map(|(option, secret)| match word.strip_prefix(option.as_bytes())? {
            [] => Some((None, *secret)),
            [b'=', ..] => Some((Some(option.len() + 1), *secret)),
            _ => None,
        })
    }

    /// The start of the secret after a prefix of this word.
    pub(super) fn prefix(&self, word: &[u8]) -> Option<usize> {
        let found = self.prefixes.iter().find(|prefix| word.starts_with(prefix.as_bytes()))?;
        Some(found.len())
    }
}

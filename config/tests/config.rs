//! Settings: precedence, profiles, the maximum, errors that help, and trust.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use stockade_config::{
    ConfigError, ConfigLoader, EngineName, FileDifference, Layer, Loaded, LossName, NetworkMode, Origin, ProjectTrust,
    SandboxMode, config_schema,
};
use stockade_protocol::{Access, AskForApproval, Decision, HostPaths, NetworkProtocol};

/// Directories for an administrator, a user and a project.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // The home and project are found by their real paths.
        for name in ["etc", "home/.config/stockade", "repo/.stockade"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        self
    }

    fn system(&self, text: &str) -> &Self {
        self.write("etc/config.toml", text)
    }

    fn user(&self, text: &str) -> &Self {
        self.write("home/.config/stockade/config.toml", text)
    }

    fn project(&self, text: &str) -> &Self {
        self.write("repo/.stockade/config.toml", text)
    }

    fn trusted(&self, text: &str) -> &Self {
        self.project(text);
        let store = self.loader().trust_store().unwrap();
        store.trust(&store.review(&self.path("repo")).unwrap()).unwrap();
        self
    }

    fn loader(&self) -> ConfigLoader {
        ConfigLoader::new().home(self.path("home")).system(self.path("etc")).project(self.path("repo"))
    }

    fn load(&self) -> Loaded {
        self.load_with(Layer::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn load_with(&self, flags: Layer) -> Result<Loaded, ConfigError> {
        self.loader().load(flags)
    }

    fn error(&self) -> String {
        self.load_with(Layer::default()).unwrap_err().to_string()
    }
}

#[test]
fn nothing_said_is_the_documented_default() {
    let loaded = World::new().load();
    assert_eq!(loaded.settings.mode, SandboxMode::WorkspaceWrite);
    assert_eq!((loaded.settings.network, loaded.settings.ask), (NetworkMode::Off, None));
    assert_eq!(loaded.settings.origins().count(), 0);
    assert!(loaded.settings.credentials.iter().any(|path| path.to_string().ends_with("/.ssh")));
    assert_eq!((loaded.notices, loaded.trust), (Vec::new(), ProjectTrust::Nothing));
}

#[test]
fn the_nearest_source_wins() {
    let world = World::new();
    world
        .system("ask = \"never\"\ntimeout = \"1m\"\nengine = \"bwrap\"\n[sandbox]\nmode = \"read-only\"\n[limits]\nprocesses = 5\nopen_files = 9")
        .user("timeout = \"2m\"\nengine = \"landlock\"\n[sandbox]\nmode = \"workspace-write\"\n[limits]\nprocesses = 6")
        .trusted("engine = \"native\"\n[sandbox]\nmode = \"danger-full-access\"");
    let flags = Layer { mode: Some(SandboxMode::ExternalSandbox), ..Layer::default() };
    let settings = world.load_with(flags).unwrap().settings;
    assert_eq!(settings.ask, Some(AskForApproval::Never));
    assert_eq!(settings.timeout, Some(Duration::from_secs(120)));
    assert_eq!(settings.engine, EngineName::Native);
    assert_eq!(settings.mode, SandboxMode::ExternalSandbox);
    assert_eq!((settings.limits.processes.unwrap().get(), settings.limits.open_files.unwrap().get()), (6, 9));
    let origin = |key: &str| settings.origin(key).clone();
    assert_eq!(origin("ask"), Origin::System(world.path("etc/config.toml")));
    assert_eq!(origin("timeout"), Origin::User(world.path("home/.config/stockade/config.toml")));
    assert_eq!(origin("engine"), Origin::Project(world.path("repo/.stockade/config.toml")));
    assert_eq!(origin("sandbox.mode"), Origin::Flag);
    assert_eq!(origin("limits.open_files"), Origin::System(world.path("etc/config.toml")));
}

#[test]
fn lists_that_grant_are_replaced_and_lists_that_deny_add_up() {
    let world = World::new();
    world
        .system("[sandbox]\nwritable_roots = [\"/a\"]\ndeny_read = [\"/secret\"]\nallow_hosts = [\"a.test\"]\n[env]\nexclude = [\"A_*\"]\nset = { X = \"1\", Y = \"1\" }")
        .user("[sandbox]\nwritable_roots = [\"/b\", \"~/c\", \"rel\"]\ndeny_read = [\"~/d/**/*.pem\"]\n[env]\nexclude = [\"B_*\"]\nset = { X = \"2\" }\n[protected_names]\nadd = [\".vscode\"]\nremove = [\".claude\"]\n[credentials]\nadd = [\"~/vault\"]\nremove = [\"~/.npmrc\"]");
    let flags = Layer { writable_roots: Some(vec!["/flag".parse().unwrap()]), ..Layer::default() };
    let settings = world.load_with(flags).unwrap().settings;
    let home = world.path("home");
    let roots: Vec<String> = settings.writable_roots.iter().map(ToString::to_string).collect();
    let own = |name: &str| home.join(name).to_str().unwrap().to_owned();
    assert_eq!(roots, ["/b".into(), own("c"), own(".config/stockade/rel"), String::from("/flag")]);
    assert_eq!(settings.deny_read.len(), 2);
    assert_eq!(settings.origin("sandbox.deny_read[0]"), &Origin::System(world.path("etc/config.toml")));
    assert_eq!(settings.origin("sandbox.writable_roots[3]"), &Origin::Flag);
    assert_eq!((settings.environment.exclude.len(), settings.environment.set.len()), (2, 2));
    assert_eq!(settings.environment.set.values().collect::<Vec<_>>(), ["2", "1"]);
    assert!(settings.protected_names.contains(&String::from(".vscode")));
    assert!(!settings.protected_names.contains(&String::from(".claude")));
    // A host that may be reached turns the network on for it.
    assert_eq!(settings.network, NetworkMode::Hosts);
    let permissions = settings.permissions(&HostPaths::without_masks(["/repo".parse().unwrap()])).unwrap();
    let access = |path: &str| permissions.access(&path.parse().unwrap());
    assert_eq!(
        [access("/repo/x"), access("/b/x"), access("/a/x"), access("/secret")],
        [Access::Write, Access::Write, Access::Read, Access::None]
    );
    assert_eq!(access("/repo/.vscode/x"), Access::Read);
    assert_eq!([access(&own("vault/x")), access(&own("d/e/f.pem"))], [Access::None, Access::None]);
    assert!(access(&own(".npmrc")) != Access::None && access(&own("d/e/f.txt")) != Access::None);
    let connect = |host: &str| permissions.connect(&host.parse().unwrap(), NetworkProtocol::Https, 443);
    assert_eq!((connect("a.test"), connect("b.test")), (Decision::Allow, Decision::Prompt));
}

#[test]
fn a_denied_host_is_never_lost_in_a_full_network() {
    let world = World::new();
    world.user("[sandbox]\nnetwork = \"full\"\ndeny_hosts = [\"evil.test\"]");
    let loaded = world.load();
    let permissions = loaded.settings.permissions(&HostPaths::without_masks([])).unwrap();
    let connect = |host: &str| permissions.connect(&host.parse().unwrap(), NetworkProtocol::Https, 443);
    assert_eq!((connect("evil.test"), connect("b.test")), (Decision::Forbidden, Decision::Prompt));
    assert!(loaded.notices.iter().any(|notice| notice.contains("deny_hosts")), "{:?}", loaded.notices);
}

#[test]
fn a_profile_counts_more_than_what_stands_outside_of_it() {
    let world = World::new();
    world
        .system("[profiles.ci]\nask = \"never\"\ntimeout = \"1m\"")
        .user("profile = \"ci\"\nask = \"untrusted\"\n[profiles.ci]\ntimeout = \"5m\"\n[profiles.open]\nsandbox.network = \"full\"");
    let settings = world.load().settings;
    assert_eq!((settings.ask, settings.timeout), (Some(AskForApproval::Never), Some(Duration::from_secs(300))));
    assert_eq!(settings.profile.as_deref(), Some("ci"));
    let file = world.path("etc/config.toml");
    assert_eq!(settings.origin("ask"), &Origin::Profile { name: String::from("ci"), file });
    let flags = Layer { profile: Some(String::from("open")), ..Layer::default() };
    let settings = world.load_with(flags).unwrap().settings;
    assert_eq!((settings.network, settings.ask), (NetworkMode::Full, Some(AskForApproval::Untrusted)));
    let flags = Layer { profile: Some(String::from("opne")), ..Layer::default() };
    let error = world.load_with(flags).unwrap_err().to_string();
    let expected = "`--profile opne`: no profile of the settings is called `opne` (permission profiles are named with \
                    `--with`): did you mean `open`?";
    assert_eq!(error, expected);
}

#[test]
fn mistakes_are_named_with_their_place_and_what_was_meant() {
    for (text, place, words) in [
        ("sandbx.mode = \"read-only\"", "1:1", "unknown key `sandbx`: did you mean `sandbox`?"),
        (
            "\n[sandbox]\nwriteable_roots = []",
            "3:1",
            "unknown key `writeable_roots` in `sandbox`: did you mean `writable_roots`?",
        ),
        ("[profiles.ci.limits]\nmemory = 1", "2:1", "unknown key `memory` in `profiles.ci.limits`: did you mean"),
        (
            "sandbox.mode = \"readonly\"",
            "1:16",
            "unknown value `readonly` for `sandbox.mode`: did you mean `read-only`?",
        ),
        ("\"&`\t\" = 1", "1:1", r"unknown key `&`\t`: there are "),
        ("[profiles.\"x\ty\"]\nmemory = 1", "2:1", r"unknown key `memory` in `profiles.x\ty`"),
        (
            "[profiles.\"a`, expected `b`\"]\n\"c`, expected `d`\" = 1",
            "2:1",
            "unknown key `c`, expected `d`` in `profiles.",
        ),
        ("ask = \"sometimes\"", "1:7", "unknown value `sometimes` for `ask`"),
        (
            "[sandbox]\naccept_losses = [\"credential\"]",
            "2:18",
            "unknown value `credential` for `sandbox.accept_losses[0]`: did you mean `credentials`?",
        ),
        (
            "audit.durability = \"sytem\"",
            "1:20",
            "unknown value `sytem` for `audit.durability`: did you mean `system`?",
        ),
        ("[limits]\nprocesses = \"many\"", "2:13", "`limits.processes`: "),
        ("[limits]\nprocesses = 0", "2:13", "`limits.processes`: "),
        ("timeout = \"soon\"", "1:11", "`timeout`: `soon` is no time"),
        ("[sandbox]\ndeny_read = [\"/a\", \"~bob/x\"]", "2:20", "`sandbox.deny_read[1]`: "),
        ("[sandbox]\nallow_hosts = [\"https://a\"]", "2:16", "`sandbox.allow_hosts[0]`: "),
        ("[protected_names]\nadd = [\"a/b\"]", "2:8", "give one name"),
        ("[sandbox\n", "1:9", "this is not TOML"),
        ("a = 1\na = 2", "2:1", "this is not TOML"),
        ("[maximum]\nask = [\"never\"]", "1:1", "`maximum` belongs in the administrator's file"),
        ("[env]\nset = { \"A=B\" = \"x\" }", "2:9", "environment variable"),
    ] {
        let world = World::new();
        let error = world.user(text).error();
        let expected = format!("{}:{place}: ", world.path("home/.config/stockade/config.toml").display());
        assert!(error.starts_with(&expected) && error.contains(words), "{text}: {error}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn files_that_others_can_write_are_refused() {
    let world = World::new();
    world.user("ask = \"never\"");
    let file = world.path("home/.config/stockade/config.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(world.error().contains("chmod go-w"), "{}", world.error());
    fs::remove_file(&file).unwrap();
    fs::write(&file, vec![b'#'; 2 * 1024 * 1024]).unwrap();
    assert!(world.error().contains("larger than"), "{}", world.error());
}

fn maximum(text: &str) -> World {
    let world = World::new();
    world.write("etc/maximum.toml", text);
    world
}

#[test]
fn nothing_exceeds_the_maximum() {
    let world = maximum(
        "ask = [\"untrusted\", \"never\"]\ntimeout = \"1m\"\naudit_required = true\n[sandbox]\nmode = \"workspace-write\"\n\
         writable_roots = [\"/cache\"]\ndeny_read = [\"/payroll\"]\nallow_hosts = [\"a.test\"]\n[limits]\nprocesses = 10",
    );
    world.user(
        "ask = \"on-request\"\ntimeout = \"1h\"\n[sandbox]\nmode = \"danger-full-access\"\nnetwork = \"full\"\n\
         writable_roots = [\"/cache/x\", \"/etc\"]\n[limits]\nprocesses = 1000",
    );
    let loaded = world.load();
    let settings = &loaded.settings;
    assert_eq!((settings.mode, settings.network), (SandboxMode::WorkspaceWrite, NetworkMode::Hosts));
    assert_eq!((settings.ask, settings.timeout), (Some(AskForApproval::Untrusted), Some(Duration::from_secs(60))));
    assert!(settings.audit_required && settings.limits.processes.unwrap().get() == 10);
    assert_eq!(loaded.notices.len(), 5, "{:?}", loaded.notices);
    assert_eq!(settings.origin("limits.processes"), &Origin::Maximum(world.path("etc/maximum.toml")));
    assert_eq!(settings.origin("sandbox.mode"), &Origin::Maximum(world.path("etc/maximum.toml")));
    let host = HostPaths::without_masks(["/repo".parse().unwrap()]);
    let permissions = settings.permissions(&host).unwrap();
    let access = |path: &str| permissions.access(&path.parse().unwrap());
    assert_eq!(
        [access("/repo/x"), access("/cache/x/y"), access("/etc/passwd"), access("/payroll/x")],
        [Access::Write, Access::Write, Access::Read, Access::None]
    );
    // An approved wider run has the same bound.
    let bound = settings.maximum.as_ref().unwrap();
    let everything = ConfigLoader::new()
        .load(Layer { mode: Some(SandboxMode::DangerFullAccess), ..Layer::default() })
        .unwrap()
        .settings
        .permissions(&host)
        .unwrap();
    let limited = bound.limit(&host, &everything).unwrap();
    assert_eq!(limited.access(&"/etc/passwd".parse().unwrap()), Access::Read);
    assert_eq!(limited.access(&"/payroll/x".parse().unwrap()), Access::None);
    assert_eq!(limited.connect(&"b.test".parse().unwrap(), NetworkProtocol::Https, 443), Decision::Prompt);
    assert!(limited.hard_denials().count() > 0 && !bound.allows_unsandboxed());
    // The default of a program is held to it as well.
    assert_eq!(world.load().settings.ask_or(AskForApproval::OnFailure), AskForApproval::Untrusted);
}

#[test]
fn a_flag_beyond_the_maximum_is_an_error() {
    let world = maximum("sandbox.mode = \"read-only\"\nsandbox.network = \"off\"\nask = [\"never\"]\ntimeout = \"5s\"");
    for (flags, words) in [
        (
            Layer { mode: Some(SandboxMode::WorkspaceWrite), ..Layer::default() },
            "sandbox.mode `workspace-write` exceeds",
        ),
        (Layer { network: Some(NetworkMode::Full), ..Layer::default() }, "sandbox.network `full` exceeds"),
        (Layer { ask: Some(AskForApproval::OnFailure), ..Layer::default() }, "ask `on-failure` exceeds"),
        (Layer { timeout: Some(Duration::from_secs(9)), ..Layer::default() }, "timeout `9s` exceeds"),
    ] {
        let error = world.load_with(flags).unwrap_err().to_string();
        assert!(error.starts_with(words) && error.contains("maximum.toml"), "{error}");
    }
    let settings = world.load().settings;
    assert_eq!((settings.mode, settings.timeout), (SandboxMode::ReadOnly, Some(Duration::from_secs(5))));
}

/// Each limit and each entry of a list counts by itself: a flag's is refused, a file's is lowered, and what the maximum
/// decided does not come from the command line.
#[test]
fn limits_hosts_sockets_and_variables_are_held_to_the_maximum() {
    let world = maximum(
        "[sandbox]\nallow_hosts = [\"*.corp.example\"]\n[limits]\nopen_files = 100\nprocesses = 50\n\
         [env]\nexclude = [\"CORP_*\"]\nset = { REGION = \"eu\" }",
    );
    let limits = |files, pids: u64| stockade_protocol::ResourceLimits {
        open_files: std::num::NonZeroU64::new(files),
        processes: std::num::NonZeroU64::new(pids),
        ..Default::default()
    };
    let hosts = |name: &str| {
        let (host, decision) = (name.parse().unwrap(), Decision::Allow);
        Some(vec![stockade_protocol::HostRule { host, protocol: None, port: Some(443), decision }])
    };
    let set = |name: &str, value: &str| [(name.parse().unwrap(), String::from(value))].into();
    for (flags, words) in [
        (
            Layer { limits: limits(4000, 0), ..Layer::default() },
            "limits.open_files `4000` exceeds the administrator's maximum `100`",
        ),
        (
            Layer { limits: limits(10, 5000), ..Layer::default() },
            "limits.processes `5000` exceeds the administrator's maximum `50`",
        ),
        (
            Layer { allow_hosts: hosts("evil.test"), ..Layer::default() },
            "sandbox.allow_hosts `evil.test:443` exceeds the administrator's maximum `*.corp.example`",
        ),
        (
            Layer { unix_sockets: Some(vec!["/run/x".parse().unwrap()]), ..Layer::default() },
            "sandbox.unix_sockets `/run/x` exceeds",
        ),
        (Layer { set: set("CORP_REGION", "v"), ..Layer::default() }, "the variable `CORP_REGION` can't be set: "),
        (Layer { set: set("REGION", "us"), ..Layer::default() }, "the variable `REGION` can't be set: "),
    ] {
        let error = world.load_with(flags).unwrap_err().to_string();
        assert!(error.starts_with(words) && error.contains("maximum.toml"), "{error}");
    }
    let within = Layer {
        limits: limits(50, 50),
        allow_hosts: hosts("git.corp.example"),
        set: set("REGION", "eu"),
        ..Layer::default()
    };
    let settings = world.load_with(within).unwrap().settings;
    for key in ["limits.open_files", "limits.processes", "sandbox.allow_hosts[0]"] {
        assert_eq!(settings.origin(key), &Origin::Flag, "{key}");
    }
    let of_maximum = Origin::Maximum(world.path("etc/maximum.toml"));
    let settings = world.load().settings;
    for key in ["limits.open_files", "env.set.REGION"] {
        assert_eq!(settings.origin(key), &of_maximum, "{key}");
    }
    world.user(
        "[sandbox]\nallow_hosts = [\"git.corp.example\", \"evil.test\", \"**.corp.example\"]\nunix_sockets = [\"/run/x\"]\n\
         [limits]\nopen_files = 4000\n[env]\nset = { CORP_REGION = \"v\", LANG = \"C\" }",
    );
    let loaded = world.load();
    let settings = &loaded.settings;
    assert_eq!(loaded.notices.len(), 4, "{:?}", loaded.notices);
    let hosts: Vec<String> = settings.hosts.iter().map(stockade_protocol::HostRule::destinations).collect();
    assert_eq!(hosts, ["git.corp.example", "*.corp.example"]);
    assert_eq!(settings.origin("sandbox.allow_hosts[1]"), &of_maximum);
    assert_eq!((settings.origin("limits.open_files"), settings.limits.open_files.unwrap().get()), (&of_maximum, 100));
    assert!(settings.unix_sockets.is_empty());
    let names: Vec<String> = settings.environment.set.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["LANG", "REGION"]);
}

/// A path's flag is checked once the workspace is known.
#[test]
fn a_path_beyond_the_maximum_is_an_error() {
    let world = maximum("[sandbox]\nmode = \"workspace-write\"\nwritable_roots = [\"/cache\"]");
    let check = |path: &str| {
        let flags = Layer { writable_roots: Some(vec![path.parse().unwrap()]), ..Layer::default() };
        world.load_with(flags).unwrap().settings.check_flags(&["/repo".parse().unwrap()])
    };
    for path in ["/cache/x", "/repo/sub"] {
        check(path).unwrap();
    }
    let error = check("/srv").unwrap_err().to_string();
    assert!(error.starts_with("sandbox.writable_roots `/srv` exceeds the administrator's maximum"), "{error}");
    world.user("[sandbox]\nwritable_roots = [\"/srv\"]");
    world.load().settings.check_flags(&[]).unwrap();
}

/// A host that the maximum forbids is forbidden without a list of allowed ones, too.
#[test]
fn a_host_that_the_maximum_forbids_is_forbidden() {
    let world = maximum("[sandbox]\ndeny_hosts = [\"evil.test\"]");
    let host = HostPaths::without_masks(["/repo".parse().unwrap()]);
    for (mode, network) in [("workspace-write", "full"), ("workspace-write", "hosts"), ("danger-full-access", "full")] {
        world.user(&format!("[sandbox]\nmode = {mode:?}\nnetwork = {network:?}\nallow_hosts = [\"evil.test\"]"));
        let settings = world.load().settings;
        let decided =
            settings.permissions(&host).unwrap().connect(&"evil.test".parse().unwrap(), NetworkProtocol::Https, 443);
        assert_eq!(decided, Decision::Forbidden, "{mode} {network}");
    }
    assert!(!world.load().settings.maximum.unwrap().allows_unsandboxed());
}

#[test]
fn losses_are_accepted_within_the_maximum() {
    let flag = |loss| Layer { accept_losses: Some(vec![loss]), ..Layer::default() };
    let world = World::new();
    world.user("[sandbox]\naccept_losses = [\"credentials\", \"denied_reads\"]");
    let settings = world.load_with(flag(LossName::FileAttributes)).unwrap().settings;
    let accepted = [LossName::Credentials, LossName::DeniedReads, LossName::FileAttributes];
    assert_eq!(settings.accept_losses, accepted);
    assert_eq!(settings.origin("sandbox.accept_losses[2]"), &Origin::Flag);
    // A maximum that does not speak of them has to hold as a whole.
    world.write("etc/maximum.toml", "[sandbox]\nmode = \"workspace-write\"");
    assert_eq!(world.load().settings.accept_losses, []);
    assert!(world.load_with(flag(LossName::FileAttributes)).is_err());
    world.write("etc/maximum.toml", "[sandbox]\naccept_losses = [\"denied_reads\", \"private_directories\"]");
    let loaded = world.load_with(flag(LossName::PrivateDirectories)).unwrap();
    assert_eq!(loaded.settings.accept_losses, [LossName::DeniedReads, LossName::PrivateDirectories]);
    assert_eq!(loaded.settings.origin("sandbox.accept_losses[1]"), &Origin::Flag);
    assert_eq!(loaded.notices.len(), 1, "{:?}", loaded.notices);
    assert!(loaded.notices[0].starts_with("the loss of `credentials` is not accepted"), "{:?}", loaded.notices);
    let error = world.load_with(flag(LossName::FileAttributes)).unwrap_err().to_string();
    let words = "sandbox.accept_losses `file_attributes` exceeds the administrator's maximum `denied_reads, ";
    assert!(error.starts_with(words), "{error}");
    world.write("etc/maximum.toml", "[sandbox]\naccept_losses = []");
    assert_eq!(world.load().settings.accept_losses, []);
}

#[test]
fn a_maximum_that_says_nothing_takes_nothing_away() {
    let world = maximum("");
    let host = HostPaths::without_masks(["/repo".parse().unwrap()]);
    world.user("[sandbox]\nmode = \"danger-full-access\"");
    let settings = world.load().settings;
    let unbounded = World::new();
    unbounded.user("[sandbox]\nmode = \"danger-full-access\"");
    let (with, without) = (settings.permissions(&host).unwrap(), unbounded.load().settings.permissions(&host).unwrap());
    assert_eq!((with.network, with.limits, with.environment), (without.network, without.limits, without.environment));
    assert_eq!(with.files.access(&"/etc/x".parse().unwrap()), Access::Write);
    world.system("[maximum]\nask = [\"never\"]");
    assert!(world.error().contains("keep one of them"), "{}", world.error());
}

#[test]
fn an_untrusted_project_is_not_read() {
    let world = World::new();
    world.project("this is not even TOML");
    let loaded = world.load();
    assert_eq!(loaded.trust, ProjectTrust::Untrusted);
    let told = loaded.notices.join("\n");
    assert!(loaded.notices.len() == 1 && told.contains("stockade trust") && told.contains("/repo"), "{told}");
}

/// or16: a change after `trust` does not count.
#[test]
fn trust_ends_with_the_first_change() {
    let world = World::new();
    world.write("repo/.stockade/rules/a.rules", "prefix_rule(pattern=[\"ls\"])\n").trusted("ask = \"never\"");
    assert_eq!((world.load().trust, world.load().settings.ask), (ProjectTrust::Trusted, Some(AskForApproval::Never)));
    world
        .write("repo/.stockade/rules/a.rules", "prefix_rule(pattern=[\"rm\"])\n")
        .write("repo/.stockade/rules/b.rules", "");
    let loaded = world.load();
    let changes = vec![
        FileDifference::Changed(String::from("rules/a.rules")),
        FileDifference::Added(String::from("rules/b.rules")),
    ];
    assert_eq!((loaded.trust, loaded.settings.ask), (ProjectTrust::Changed { changes }, None));
    let told = loaded.notices.join("\n");
    assert!(told.contains("`.stockade/rules/a.rules` has changed") && told.contains("diff -- .stockade"), "{told}");
    let store = world.loader().trust_store().unwrap();
    store.trust(&store.review(&world.path("repo")).unwrap()).unwrap();
    assert_eq!(world.load().trust, ProjectTrust::Trusted);
    fs::remove_file(world.path("repo/.stockade/rules/a.rules")).unwrap();
    assert!(matches!(world.load().trust, ProjectTrust::Changed { .. }));
    store.trust(&store.review(&world.path("repo")).unwrap()).unwrap();
    assert_eq!(store.projects().unwrap().len(), 1);
    assert!(store.revoke(&world.path("repo")).unwrap());
    assert!(!store.revoke(&world.path("repo")).unwrap());
    assert_eq!(world.load().trust, ProjectTrust::Untrusted);
}

/// gm13: trust is for a real path, whatever its metadata say.
#[test]
fn trust_is_for_the_real_path() {
    let world = World::new();
    world.trusted("ask = \"never\"");
    symlink(world.path("repo"), world.path("link")).unwrap();
    let store = world.loader().trust_store().unwrap();
    assert_eq!(store.check(&world.path("link")).unwrap(), ProjectTrust::Trusted);
    // The same content elsewhere is another project.
    world.write("copy/.stockade/config.toml", "ask = \"never\"");
    assert_eq!(store.check(&world.path("copy")).unwrap(), ProjectTrust::Untrusted);
    // A link inside could lead to what the sandbox writes.
    symlink("/tmp/x", world.path("repo/.stockade/rules")).unwrap();
    assert!(matches!(store.check(&world.path("repo")), Err(ConfigError::Unsafe { .. })));
    assert!(world.error().contains("repo/.stockade/rules` is a symbolic link"), "{}", world.error());
}

/// A link may lead to what a command writes, and rules behind what can't be read might forbid something.
#[test]
fn a_project_with_links_in_its_directory_is_refused() {
    let links = [".stockade", ".stockade/config.toml", ".stockade/rules", ".stockade/rules/a.rules"];
    for link in links {
        for target in ["elsewhere", "/nonexistent/x", "../repo/elsewhere/rules/a.rules"] {
            let world = World::new();
            fs::remove_dir_all(world.path("repo/.stockade")).unwrap();
            world.write("repo/elsewhere/rules/a.rules", "prefix_rule(pattern=[\"ls\"])\n");
            let path = world.path("repo").join(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, &path).unwrap();
            assert!(world.error().contains("is a symbolic link"), "{link}: {}", world.error());
            let store = world.loader().trust_store().unwrap();
            assert!(matches!(store.review(&world.path("repo")), Err(ConfigError::Unsafe { .. })), "{link}");
        }
    }
    let world = World::new();
    fs::remove_dir_all(world.path("repo/.stockade")).unwrap();
    world.write("repo/.stockade", "ask = \"never\"");
    assert!(world.error().contains("is no directory"), "{}", world.error());
}

/// A file that is swapped after the comparison is not read again.
#[test]
fn the_rules_that_count_are_the_bytes_that_were_compared() {
    let world = World::new();
    let files = ["b.rules", "a.rules", ".hidden.rules", "note.txt", "deeper/c.rules"];
    for file in files {
        world.write(&format!("repo/.stockade/rules/{file}"), &format!("# {file}\n"));
    }
    assert_eq!(world.load().project_rules, []);
    let store = world.loader().trust_store().unwrap();
    store.trust(&store.review(&world.path("repo")).unwrap()).unwrap();
    let loaded = world.load();
    for file in files {
        world.write(&format!("repo/.stockade/rules/{file}"), "prefix_rule(pattern=[\"rm\"])\n");
    }
    let found: Vec<_> = loaded.project_rules.into_iter().map(|rules| (rules.path, rules.content)).collect();
    let expected = ["a.rules", "b.rules"]
        .map(|file| (world.path(&format!("repo/.stockade/rules/{file}")), format!("# {file}\n").into_bytes()));
    assert_eq!(found, expected);
    assert_eq!(world.load().project_rules, [], "they have changed");
}

#[test]
fn a_project_can_neither_answer_for_you_nor_hide_its_traces() {
    for text in [
        "[audit]\nrequired = false",
        "[approver]\nhook = [\"./yes\"]",
        "[profiles.x.audit]\npath = \"/tmp\"",
        "[sandbox]\naccept_losses = [\"credentials\"]",
        "rules.allow = \"outside\"",
        "[profiles.x.rules]\nallow = \"outside\"",
        "[maximum]",
    ] {
        let world = World::new();
        world.trusted(text);
        assert!(world.error().contains("belongs in"), "{text}: {}", world.error());
        if !text.contains("maximum") {
            world.user(text);
            fs::remove_dir_all(world.path("repo/.stockade")).unwrap();
            world.load();
        }
    }
}

#[test]
fn the_list_of_trusted_projects_is_private_and_survives_many_writers() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new();
    let store = world.loader().trust_store().unwrap();
    std::thread::scope(|scope| {
        for index in 0..16 {
            let (world, store) = (&world, &store);
            scope.spawn(move || {
                let root = world.path(&format!("p{index}"));
                fs::create_dir_all(root.join(".stockade")).unwrap();
                store.trust(&store.review(&root).unwrap()).unwrap();
            });
        }
    });
    assert_eq!(store.projects().unwrap().len(), 16);
    let file = world.path("home/.local/state/stockade/trust.toml");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    // A planted list is not trusted.
    let text = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(world.path("planted"), text).unwrap();
    symlink(world.path("planted"), &file).unwrap();
    assert!(store.projects().is_err());
}

#[test]
fn the_schema_names_every_key() {
    let schema = config_schema().to_value();
    let named = |pointer: &str| schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).clone();
    assert_eq!(named("/additionalProperties"), serde_json::Value::Bool(false));
    for key in ["ask", "sandbox", "profiles", "maximum", "limits", "env", "audit", "approver", "credentials"] {
        named(&format!("/properties/{key}"));
    }
    assert_eq!(named("/properties/timeout/type"), serde_json::json!(["string", "null"]));
}

/// Lines that are nearly right, in any order.
fn almost_toml() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "[sandbox]",
            "[profiles.x]",
            "[profiles.x.env]",
            "[env]",
            "[limits]",
            "[maximum]",
            "ask = \"never\"",
            "mode = 3",
            "mode = \"read-only\"",
            "writable_roots = [\"a\", \"~\", \"/\", \"../..\"]",
            "deny_read = [\"**\", \"/a/*\"]",
            "allow_hosts = [\"a:1\", \"[::1]:2\", \":\"]",
            "timeout = \"9s\"",
            "set = { A = \"b\" }",
            "ask = { reject = {} }",
            "processes = 18446744073709551615",
            "profile = \"x\"",
            "[[profiles]]",
            "x.y.z = 1",
            "\"\" = 1",
            "[approver]",
            "hook = []",
            "hook = [\"a\\u0000\"]",
            "add = [\"\", \"..\", \"a\"]",
            "[credentials]",
            "[protected_names]",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn any_file_is_read_or_refused_with_a_place_in_it(text in almost_toml()) {
        let world = World::new();
        world.user(&text);
        match world.load_with(Layer::default()) {
            Ok(_) | Err(ConfigError::UnknownProfile { .. }) => {}
            Err(ConfigError::Invalid { line, column, problem, .. }) => {
                prop_assert!(line >= 1 && line <= text.matches('\n').count() + 2 && column >= 1);
                prop_assert!(!problem.contains(char::is_control), "{problem:?}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn the_readers_path_is_not_followed_out_of_the_base() {
    let world = World::new();
    world.user("[sandbox]\nwritable_roots = [\"../../x\"]");
    let root = world.load().settings.writable_roots;
    assert_eq!(root.iter().map(ToString::to_string).collect::<Vec<_>>(), [world.path("home/x").to_str().unwrap()]);
}

/// The examples of the documentation, by the order in which they stand there.
fn documented() -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    let text = fs::read_to_string(path).unwrap();
    text.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_documented_settings_are_read_and_name_every_key() {
    let documented = documented();
    let [settings, bound] = documented.as_slice() else { panic!("{} examples", documented.len()) };
    let world = World::new();
    // Not every machine has the device of the example.
    let own = settings.replace("/dev/dri/renderD128", "/dev/zero");
    let loaded = world.user(&own).write("etc/maximum.toml", bound).load();
    assert_eq!(loaded.settings.profile.as_deref(), Some("careful"));
    assert_eq!(loaded.settings.mode, SandboxMode::ReadOnly);
    let schema = config_schema().to_value();
    let keys =
        |pointer: &str| schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for key in keys("/properties").iter().filter(|key| *key != "maximum") {
        let is_named = settings.contains(&format!("\n{key} =")) || settings.contains(&format!("[{key}"));
        assert!(is_named, "`{key}` is not documented");
    }
    for (definition, text) in
        [("Sandbox", settings), ("Environment", settings), ("AuditSettings", settings), ("Maximum", bound)]
    {
        for key in keys(&format!("/$defs/{definition}/properties")) {
            let is_named = text.contains(&format!("\n{key} =")) || text.contains(&format!("\n[{key}]"));
            assert!(is_named, "`{key}` of {definition} is not documented");
        }
    }
}

//! What keeps a command inside although its rules let it leave: whatever the session's commands could have put in its way.

use std::net::TcpListener;
use std::os::unix::fs::symlink;

use super::home::{Home, said};
use crate::support::{program, run};

const TOUCH_OUTSIDE: &str = "prefix_rule(pattern=[\"touch\"], outside = True)\n";

fn with_rules(rules: &str) -> Home {
    let home = Home::new();
    home.write("config/stockade/rules/mine.rules", rules);
    home
}

/// A workspace that is a repository, and others in it that a sandboxed command has made.
fn with_repositories(rules: &str) -> Home {
    let home = with_rules(rules);
    let git = |words: &[&str]| {
        run(
            program("git")
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .args(words)
                .current_dir(home.path("ws")),
            0,
        );
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]);
    let outside = home.path("outside").display().to_string();
    let plant = format!(
        "git init -q d; git init -q --bare e; \
         git -C d config alias.zz '!touch {outside}/made'; git --git-dir e config alias.zz '!touch {outside}/made'; \
         printf '#!/bin/sh\\ntouch {outside}/made\\n' > e/hooks/post-receive; chmod +x e/hooks/post-receive; \
         mkdir f; echo 'gitdir: ../d/.git' > f/.git"
    );
    home.runs(&[], &plant, 0);
    assert!(home.exists("ws/e/hooks/post-receive") && home.exists("ws/d/.git/config"));
    home
}

#[test]
fn git_leaves_for_no_repository_that_a_command_has_made() {
    let home = with_repositories("prefix_rule(pattern=[\"git\"], outside = True)\n");
    let explained = home.says(&["explain", "--", "git", "status"], 0).stdout;
    assert!(explained.contains("where    without a sandbox"), "{explained}");
    let lines: &[&[&str]] = &[
        &["--", "git", "-C", "d", "zz"],
        &["--", "git", "--git-dir=d/.git", "zz"],
        &["--", "git", "--git-dir", "e", "zz"],
        &["--env", "GIT_DIR=d/.git", "--", "git", "zz"],
        &["--", "env", "GIT_DIR=d/.git", "git", "zz"],
        &["--", "env", "-C", "d", "git", "zz"],
        &["--", "bash", "-c", "GIT_DIR=d/.git git zz"],
        &["--cwd", "f", "--", "git", "zz"],
        &["--cwd", "e", "--", "git", "zz"],
        &["--", "git", "push", "-q", "e", "HEAD:refs/heads/a"],
        &["--", "git", "push", "-q", "./e", "HEAD:refs/heads/b"],
        &["--", "git", "push", "-q", "--repo=e", "HEAD:refs/heads/c"],
        &["--", "git", "-c", "alias.zz=!touch ../outside/made", "zz"],
        &["--", "git", "fetch", "ext::touch ../outside/made"],
        &["--", "git", "ls-remote", "--upload-pack=touch ../outside/made;", "."],
    ];
    for words in lines {
        home.stockade(&[&["run"], *words].concat()).output().unwrap();
        assert!(!home.exists("outside/made"), "{words:?}");
    }
    let mut command = home.stockade(&["run", "--", "git", "zz"]);
    command.env("GIT_DIR", "d/.git").output().unwrap();
    assert!(!home.exists("outside/made"), "by the environment");
    // Settings of the repository that lead to what commands may write.
    run(program("git").args(["config", "remote.origin.url", "./e"]).current_dir(home.path("ws")), 0);
    home.stockade(&["run", "--", "git", "push", "-q", "origin", "HEAD:refs/heads/z"]).output().unwrap();
    assert!(!home.exists("outside/made"), "by a remote");
}

/// A host that is forbidden stays so where the network is off: without the sandbox it would be reached.
#[test]
fn no_rule_leaves_for_a_forbidden_host() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let curl = "prefix_rule(pattern=[\"curl\"], outside = True)\n";
    let denying = "network_rule(host=\"127.0.0.1\", protocol=\"http\", decision=\"deny\")\n";
    for (rules, settings) in
        [(curl.to_owned(), "[sandbox]\ndeny_hosts = [\"127.0.0.1\"]\n"), (curl.to_owned() + denying, "")]
    {
        let home = with_rules(&rules);
        home.write("config/stockade/config.toml", settings);
        home.stockade(&["run", "--", "curl", "-s", "-m", "2", &url]).output().unwrap();
        assert!(listener.accept().is_err(), "{settings}");
    }
    let home = with_rules(curl);
    home.stockade(&["run", "--", "curl", "-s", "-m", "1", &url]).output().unwrap();
    assert!(listener.accept().is_ok(), "without such a rule it is reached");
}

/// What a project may not say, it may not choose either.
#[test]
fn no_project_lets_commands_leave_by_a_profile_or_a_variable() {
    let home = with_rules("prefix_rule(pattern=[\"touch\"])\n");
    home.write("config/stockade/config.toml", "[profiles.ci.rules]\nallow = \"outside\"\n");
    home.write("ws/.stockade/config.toml", "profile = \"ci\"\n");
    home.says(&["trust"], 0);
    let touch = ["run", "--", "touch", "../outside/made"];
    let told = home.says(&touch, 1).stderr;
    assert!(told.contains("`rules.allow` of the profile `ci` does not count"), "{told}");
    assert!(!home.exists("outside/made"));
    home.says(&["run", "--profile", "ci", "--", "touch", "../outside/made"], 0);
    assert!(home.exists("outside/made"));
    let home = with_rules(TOUCH_OUTSIDE);
    home.write("ws/file", "touch ../outside/made\n");
    let file = home.path("ws/file").display().to_string();
    for settings in [
        format!("[env.set]\nBASH_ENV = {file:?}\n"),
        format!("profile = \"x\"\n[profiles.x.env.set]\nBASH_ENV = {file:?}\n"),
    ] {
        home.write("ws/.stockade/config.toml", &settings);
        home.says(&["trust"], 0);
        home.stockade(&["run", "--", "bash", "-c", "touch q"]).output().unwrap();
        assert!(!home.exists("outside/made"), "{settings}");
    }
    std::fs::remove_dir_all(home.path("ws/.stockade")).unwrap();
    // The user's own variable leads to what a command could have written.
    let mut command = home.stockade(&["run", "--", "bash", "-c", "touch q"]);
    command.env("BASH_ENV", &file).output().unwrap();
    assert!(!home.exists("outside/made"));
}

/// A home directory as the workspace: the usual place of rules is held there. What programs read in a home is not.
#[test]
fn rules_in_a_home_that_is_the_workspace_are_read_and_its_commands_stay() {
    let home = Home::new();
    home.write("home/.config/stockade/rules/mine.rules", TOUCH_OUTSIDE);
    let user = home.path("home").display().to_string();
    let run = |words: &[&str], exit_code: i32| {
        let words = [&["run", "--workspace", &user], words].concat();
        said(home.stockade(&words).env_remove("XDG_CONFIG_HOME"), exit_code)
    };
    run(&["--", "true"], 0);
    run(&["--", "touch", "../outside/made"], 1);
    assert!(!home.exists("outside/made"));
    let rules = home.path("home/.config/stockade/rules");
    home.stockade(&["run", "--workspace", &user, "--", "touch", &rules.join("x.rules").display().to_string()])
        .env_remove("XDG_CONFIG_HOME")
        .env("XDG_CONFIG_HOME", home.path("config"))
        .output()
        .unwrap();
    assert!(!rules.join("x.rules").exists());
}

/// A directory of `PATH` that commands may write, or that is meant from where a line has gone, leads to their programs.
#[test]
fn no_command_leaves_with_a_path_that_leads_to_planted_programs() {
    let home = with_rules(&(TOUCH_OUTSIDE.to_owned() + "prefix_rule(pattern=[\"cd\"], outside = True)\n"));
    let outside = home.path("outside").display().to_string();
    home.runs(
        &[],
        &format!("mkdir d; printf '#!/bin/sh\\n/bin/touch {outside}/made\\n' > d/touch; chmod +x d/touch"),
        0,
    );
    let planted = home.path("ws/d").display().to_string();
    for (path, line) in [
        (".:/usr/bin:/bin", "cd d; touch q"),
        ("/usr/bin:/bin:", "cd d; touch ../../outside/made"),
        (":/usr/bin:/bin", "cd d; touch q"),
        (&*format!("{planted}:/usr/bin:/bin"), "touch q"),
    ] {
        let mut command = home.stockade(&["run", "--", "bash", "-c", line]);
        command.env("PATH", path).output().unwrap();
        assert!(!home.exists("outside/made"), "{path} {line}");
    }
}

/// Each link on the way to a rules file counts, not the first and the last alone.
#[test]
fn rules_behind_a_link_in_the_workspace_do_not_leave() {
    let home = Home::new();
    home.write("home/r2/o.rules", TOUCH_OUTSIDE);
    std::fs::create_dir_all(home.path("ws/m")).unwrap();
    symlink(home.path("home/r2"), home.path("ws/m/r")).unwrap();
    symlink(home.path("ws/m/r"), home.path("home/viaws")).unwrap();
    let file = home.path("home/viaws/o.rules").display().to_string();
    let told = home.says(&["run", "--rules", &file, "--", "touch", "../outside/made"], 125).stderr;
    assert!(told.contains("in a file that commands may write"), "{told}");
    assert!(!home.exists("outside/made"));
}

#[test]
fn what_can_not_be_recorded_is_not_said_to_be_said_once() {
    let home = with_rules("prefix_rule(pattern=[\"touch\"])\n");
    std::fs::write(home.path("state/stockade"), "").unwrap();
    for _ in 0..2 {
        let told = home.says(&["run", "--", "true"], 0).stderr;
        assert!(told.contains("said at each run") && !told.contains("said once"), "{told}");
    }
}

/// A variable that could lead to what the project or a command wrote keeps the command inside, whatever reads it.
#[test]
fn no_command_leaves_with_a_variable_that_could_steer_it() {
    let home = with_rules(&(TOUCH_OUTSIDE.to_owned() + "prefix_rule(pattern=[\"perl\"], outside = True)\n"));
    let outside = home.path("outside").display().to_string();
    home.write("ws/Zz.pm", &format!("system('touch', '{outside}/loaded'); 1;\n"));
    home.write("tool/t.pl", "use Zz;\n");
    let (tool, workspace) = (home.path("tool/t.pl").display().to_string(), home.path("ws").display().to_string());
    for options in [&["run"][..], &["run", "--env", &format!("PERLLIB={workspace}")]] {
        let mut command = home.stockade(&[options, &["--", "perl", &tool]].concat());
        command.env("PERLLIB", &workspace).output().unwrap();
        assert!(!home.exists("outside/loaded"), "{options:?}");
    }
    let above = home.path("").display().to_string();
    for (name, value) in [
        ("PERLLIB", &*workspace),
        ("PERLLIB", "/proc/self/cwd"),
        ("PERLLIB", "/usr/share/perl:"),
        ("PERLLIB", "lib"),
        ("PERL_USE_UNSAFE_INC", "1"),
        ("OPENSSL_CONF", "openssl.cnf"),
        ("OPENSSL_MODULES", &*workspace),
        ("OPENSSL_ENGINES", above.trim_end_matches('/')),
        ("MAKEFILES", "x.mk"),
        ("MAKEFILES", "1"),
        ("MAKEFLAGS", "--eval=$(shell touch x)"),
        ("GNUMAKEFLAGS", "--eval=$(shell touch x)"),
        ("TAR_OPTIONS", "--checkpoint=1 --checkpoint-action=exec=x"),
        ("LESSOPEN", "|x %s"),
        ("LESSCLOSE", "x %s %s"),
        ("LUA_INIT", "@x.lua"),
        ("CLASSPATH", "classes"),
        ("VIMINIT", "source x"),
        ("WGETRC", "wgetrc"),
        ("CURL_HOME", &*workspace),
        ("RSYNC_RSH", "sh"),
        ("RUSTC_WRAPPER", "sh"),
        ("GIT_PAGER", "sh"),
        ("PAGER", "/bin/sh"),
        ("GOFLAGS", "-toolexec=x"),
        ("npm_config_script_shell", "/bin/sh"),
        ("PIP_INDEX_URL", "https://packages.test/simple"),
        ("PYTHONUSERBASE", &*workspace),
        ("NOT_HEARD_OF", &*format!("/usr/share:{workspace}/x")),
        ("NOT_HEARD_OF", "./x"),
        ("NOT_HEARD_OF", "~/x"),
        ("NOT_HEARD_OF", "Zz.pm"),
        ("HOME", &*workspace),
    ] {
        let mut command = home.stockade(&["explain", "--", "touch", "../outside/made"]);
        let told = said(command.env(name, value), 0).stdout;
        assert!(
            told.contains("where    in the sandbox") && told.contains(&format!("`{name}`")),
            "{name}={value} {told}"
        );
    }
    assert!(!home.exists("outside/made"));
}

/// What ordinary sessions have in their environment keeps nothing inside.
#[test]
fn commands_leave_with_an_ordinary_environment() {
    let home = with_rules(TOUCH_OUTSIDE);
    let mut command = home.stockade(&["run", "--", "touch", "../outside/made"]);
    let workspace = home.path("ws").display().to_string();
    command.envs([
        ("PWD", &*workspace),
        ("OLDPWD", &*workspace),
        ("USER", "someone"),
        ("LC_ALL", "de_DE.UTF-8@euro"),
        ("LANGUAGE", "de_DE:de"),
        ("TZ", "Europe/Berlin"),
        ("SHLVL", "2"),
        ("SHELL", "/bin/bash"),
        ("EDITOR", "vim"),
        ("PAGER", "/usr/bin/less"),
        ("DISPLAY", ":0"),
        ("COLORTERM", "truecolor"),
        ("LS_COLORS", "di=01;34:*.tar=01;31"),
        ("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22"),
        ("SSH_TTY", "/dev/pts/0"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
        ("https_proxy", "http://proxy.test:3128"),
        ("no_proxy", "localhost,127.0.0.1,.test"),
        ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
        ("RUST_BACKTRACE", "1"),
        ("HOSTNAME", "build-7"),
        ("_", "/usr/bin/env"),
    ]);
    said(&mut command, 0);
    assert!(home.exists("outside/made"));
    std::fs::remove_file(home.path("outside/made")).unwrap();
    said(home.stockade(&["run", "--", "touch", "../outside/made"]).env_remove("HOME"), 0);
    assert!(home.exists("outside/made"), "without a home");
}

/// A home that commands may write has the files that a login shell reads first.
#[test]
fn no_login_shell_leaves_with_a_home_that_commands_may_write() {
    let home = with_rules("prefix_rule(pattern=[\"id\"], outside = True)\n");
    home.write("ws/.bash_profile", &format!("touch {}/made\n", home.path("outside").display()));
    let mut command = home.stockade(&["run", "--", "bash", "-lc", "id -u"]);
    command.env("HOME", home.path("ws")).output().unwrap();
    assert!(!home.exists("outside/made"));
}

/// The settings that `git` is given by variables reach it whole or not at all.
#[test]
fn git_is_not_given_half_of_its_settings() {
    let home = Home::new();
    home.says(&["run", "--", "git", "init", "-q", "d"], 0);
    let mut command = home.stockade(&["run", "--", "git", "-C", "d", "status", "-s"]);
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "user.name").env("GIT_CONFIG_VALUE_0", "x");
    said(&mut command, 0);
}

/// What keeps a command inside is said.
#[test]
fn explain_says_what_keeps_a_command_inside() {
    let home = with_repositories("prefix_rule(pattern=[\"git\"], outside = True)\n");
    let told = |words: &[&str], name: &str, value: &str| {
        let mut command = home.stockade(&[&["explain"], words].concat());
        said(command.env(name, value), 0).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let path = format!("{}:/usr/bin:/bin", home.path("ws").display());
    for (words, (name, value), why) in [
        (&["--", "git", "status"][..], ("PATH", path.as_str()), "a directory of `PATH`"),
        (&["--", "git", "status"], ("EDITOR_FILE", "./x"), "the variable `EDITOR_FILE` could lead it"),
        (&["--", "git", "push", "nowhere"], ("LANG", "C"), "nowhere"),
        (&["--cwd", "f", "--", "git", "status"], ("LANG", "C"), "a rule lets it leave the sandbox, but"),
    ] {
        let told = told(words, name, value);
        let kept = told.split_once("a rule lets it leave the sandbox, but").map(|(_, kept)| kept.to_owned());
        assert!(told.contains("where in the sandbox"), "{words:?}: {told}");
        assert!(kept.is_some_and(|kept| why.starts_with("a rule") || kept.contains(why)), "{words:?}: {told}");
    }
}

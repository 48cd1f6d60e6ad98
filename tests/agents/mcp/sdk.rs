//! The official TypeScript SDK as a client: `initialize` (2025-11-25) with elicitations while a call runs, and
//! `server/discover` (2026-07-28) with calls that end with a question.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{McpUser, agent, said, shell};
use crate::support::{run, text};

const AGES: [&str; 2] = ["initialize", "discover"];

fn yes(decision: &str) -> Value {
    json!({"action": "accept", "content": {"decision": decision}})
}

#[test]
fn a_write_inside_happens_and_one_outside_is_denied_and_explained() {
    for age in AGES {
        let user = McpUser::new();
        let outside = user.home.path("outside/x").display().to_string();
        let heard = user.sdk(
            age,
            &[],
            None,
            &[
                shell("echo hi > inside; cat inside; echo to stderr >&2; exit 3"),
                shell(&format!("echo x > {outside}")),
                json!({"name": "run", "arguments": {"argv": ["no-such-program"]}}),
                json!({"name": "explain", "arguments": {"command": "ls | head"}}),
                json!({"name": "apply_patch", "arguments": {"patch":
                    "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+by a patch\n"}}),
                json!({"name": "run", "arguments": {"command": "true", "sandbox": "off"}}),
            ],
        );
        let names: Vec<&str> =
            heard["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["run", "explain", "apply_patch", "request_permissions", "read_output"]);
        let [inside, denied, missing, explained, patched, unknown] = &heard["results"].as_array().unwrap()[..] else {
            panic!("{heard}")
        };
        assert_eq!(user.home.read("ws/inside"), "hi\n");
        // Two streams have no order between them.
        let told = said(inside);
        assert!(["hi\nto stderr\nexit code 3\n", "to stderr\nhi\nexit code 3\n"].contains(&&*told), "{told}");
        assert_eq!(
            (&inside["structuredContent"]["outcome"], &inside["structuredContent"]["exit_code"]),
            (&json!("exited"), &json!(3))
        );
        assert!(!user.home.exists("outside/x"));
        let told = said(denied);
        for part in [
            &*format!("stockade: writing `{outside}` was denied"),
            "writable_roots = [",
            "would allow it",
            "call `request_permissions` with {\"write\":[",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let violation = &denied["structuredContent"]["violations"][0];
        assert_eq!((&violation["operation"], &violation["target"]), (&json!("write"), &json!(outside)), "{denied}");
        assert!(violation["remedy"].as_str().unwrap().contains("writable_roots"), "{violation}");
        assert_eq!(denied["isError"], true);
        assert_eq!(missing["structuredContent"]["exit_code"], 127, "{missing}");
        assert_eq!(explained["structuredContent"]["decision"], "runs", "{explained}");
        assert_eq!(user.home.read("ws/new.txt"), "by a patch\n", "{patched}");
        assert!(unknown["isError"] == true && said(unknown).contains("sandbox"), "{unknown}");
        run(&mut user.stockade(&["audit", "verify"]), 0);
        let trail = text(&run(&mut user.stockade(&["audit", "list"]), 0).stdout);
        assert!(trail.contains("inside"), "{trail}");
    }
}

#[test]
fn questions_are_elicited_and_yes_no_and_cancel_are_honoured() {
    for age in AGES {
        let user = McpUser::asked();
        let answers = json!([
            yes("allow-once"),
            {"action": "decline"},
            {"action": "cancel"},
            {"action": "accept", "content": {"decision": "deny", "reason": "use the build script"}},
            yes("allow-for-session"),
        ]);
        let calls =
            ["once", "declined", "cancelled", "denied", "kept", "kept"].map(|name| shell(&format!("touch {name}")));
        let heard = user.sdk(age, &[], Some(answers), &calls);
        let exists =
            ["once", "declined", "cancelled", "denied", "kept"].map(|name| user.home.exists(&format!("ws/{name}")));
        assert_eq!(exists, [true, false, false, false, true], "{age}: {heard}");
        let questions = heard["questions"].as_array().unwrap();
        // The last call is the one that was approved for the session.
        assert_eq!(questions.len(), 5, "{age}: {questions:#?}");
        assert!(questions[0].as_str().unwrap().contains("files are made by hand"), "{questions:#?}");
        let told = |index: usize| said(&heard["results"][index]);
        assert!(told(1).contains("declined in the MCP client") && told(2).contains("dismissed"), "{heard}");
        assert!(told(3).contains("use the build script"), "{heard}");
        assert_eq!(heard["results"][5]["structuredContent"]["exit_code"], 0, "{heard}");
    }
}

#[test]
fn permissions_that_are_granted_hold_and_those_that_are_not_do_not() {
    for age in AGES {
        let user = McpUser::new();
        let outside = user.home.path("outside").display().to_string();
        let wanted = |name: &str| json!({"name": "request_permissions", "arguments": {"write": [name], "justification": "to install it"}});
        let calls = [
            wanted("/etc"),
            wanted(&outside),
            shell(&format!("echo x > {outside}/x")),
            json!({"name": "request_permissions", "arguments": {}}),
        ];
        let answers = json!([{"action": "decline"}, yes("allow-for-session"), {"action": "decline"}]);
        let heard = user.sdk(age, &[], Some(answers), &calls);
        let results = heard["results"].as_array().unwrap();
        assert_eq!(results[0]["structuredContent"]["granted"], false, "{heard}");
        assert_eq!(results[1]["structuredContent"], json!({"granted": true, "scope": "session"}), "{heard}");
        assert!(user.home.exists("outside/x"), "{heard}");
        assert!(said(&results[3]).contains("name at least one path or host"), "{heard}");
        assert!(heard["questions"][1].as_str().unwrap().contains("to install it"), "{heard}");
    }
}

#[test]
fn without_elicitation_the_documented_default_says_how_to_allow_it() {
    for (age, arguments) in [("initialize", &[][..]), ("discover", &[])] {
        let user = McpUser::asked();
        let heard = user.sdk(age, arguments, None, &[shell("touch asked")]);
        assert!(!user.home.exists("ws/asked"));
        let told = said(&heard["results"][0]);
        assert!(told.contains("refused") && told.contains("stockade session attend mcp-"), "{told}");
    }
    // The same for a client whose elicitations are not wanted.
    let user = McpUser::asked();
    let heard =
        user.sdk("initialize", &["--no-elicitation"], Some(json!([yes("allow-once")])), &[shell("touch asked")]);
    assert!(!user.home.exists("ws/asked") && heard["questions"] == json!([]), "{heard}");
}

#[test]
fn cancelling_ends_the_command_and_long_output_is_shortened() {
    for age in AGES {
        let user = McpUser::new();
        let mut slow = shell("echo started; sleep 86400");
        slow["cancelOnProgress"] = json!("started");
        let unknown = json!({"name": "read_output", "arguments": {"handle": "output-1"}});
        // The call behind the cancelled one has the session for itself: nothing of the first one runs any more.
        let heard = user.sdk(age, &[], None, &[slow, shell("seq 1 100000"), unknown]);
        let results = heard["results"].as_array().unwrap();
        assert!(results[0]["thrown"].as_str().unwrap().contains("cancelled by the test"), "{}", results[0]);
        let progress = heard["progress"].as_array().unwrap();
        assert!(
            progress.iter().any(|told| told["message"].as_str().unwrap().contains("last: started")),
            "{progress:?}"
        );
        let content = &results[1]["structuredContent"];
        let whole: usize = (1..=100_000).map(|number: u32| number.to_string().len() + 1).sum();
        assert_eq!(content["output_bytes"], whole);
        assert!(content["output"].as_str().unwrap().len() < 20_000);
        assert!(content["output_handle"].as_str().unwrap().starts_with("output-"), "{content}");
        assert!(said(&results[2]).contains("there is no such output"), "{}", results[2]);
    }
}

/// Whether a program with this argument runs on this machine.
pub(super) fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

pub(super) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_ends_when_its_call_is_cancelled_and_when_its_client_goes() {
    let user = McpUser::new();
    let mut talk = user.initialized(&[], &json!({}));
    for (number, ending) in ["cancelled", "gone"].iter().enumerate() {
        let seconds = format!("8640{number}.{}", std::process::id());
        let id = talk.send("tools/call", &shell(&format!("sleep {seconds}")));
        wait_until("it does not start", || runs(&seconds));
        match *ending {
            "cancelled" => talk.line(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                    .to_string(),
            ),
            _ => talk.close(),
        }
        wait_until(ending, || !runs(&seconds));
    }
    // Nothing lets others join a session that is no more.
    wait_until("the ticket", || {
        let left = std::fs::read_dir(user.home.path("run/stockade")).unwrap().flatten();
        !left.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".session"))
    });
}

#[test]
fn the_rest_of_long_output_is_read_part_by_part() {
    let user = McpUser::new();
    let mut talk = user.initialized(&[], &json!({}));
    let result = talk.call("tools/call", &shell("seq 1 100000"));
    let handle = &result["structuredContent"]["output_handle"];
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let (mut read, mut offset) = (String::new(), json!(0));
    loop {
        let arguments = json!({"handle": handle, "offset": offset, "max_bytes": 100_000});
        let part = talk.call("tools/call", &json!({"name": "read_output", "arguments": arguments}));
        read += part["structuredContent"]["output"].as_str().unwrap();
        offset = part["structuredContent"]["next_offset"].clone();
        if part["structuredContent"]["is_end"] == true {
            break;
        }
    }
    assert!(read == whole);
    assert!(talk.end().success());
}

#[test]
fn the_inspectors_command_line_lists_and_calls_the_tools() {
    let user = McpUser::new();
    let outside = user.home.path("outside/x").display().to_string();
    let inspect = |arguments: &[&str]| {
        let mut node = user.node();
        node.arg(agent(".bin/mcp-inspector")).args(["--cli"]).arg(user.home.path("stockade")).arg("mcp");
        for (name, value) in user.environment().as_object().unwrap() {
            node.args(["-e", &format!("{name}={}", value.as_str().unwrap())]);
        }
        text(&run(node.args(arguments), 0).stdout)
    };
    let listed = inspect(&["--method", "tools/list"]);
    assert!(listed.contains("request_permissions"), "{listed}");
    let inside = inspect(&["--method", "tools/call", "--tool-name", "run", "--tool-arg", "command=echo hi > inside"]);
    assert!(user.home.exists("ws/inside"), "{inside}");
    let line = format!("command=echo x > {outside}");
    let denied = inspect(&["--method", "tools/call", "--tool-name", "run", "--tool-arg", &line]);
    assert!(!user.home.exists("outside/x") && denied.contains("was denied"), "{denied}");
    assert!(denied.contains(r#""isError": true"#), "{denied}");
}

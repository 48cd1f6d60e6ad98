//! Explanations match what happens, and a line is parsed once for both.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use proptest::prelude::*;
use stockade_execpolicy::{Layer, Policy};
use stockade_protocol::{
    AbsPath, Access, ApprovalRequest, ApprovalSubject, Argv, AskForApproval, AuditEvent, Decision, DenyingRule,
    Enforcement, EscalationExecution, Evidence, ExecApprovalRequirement, ExecExpiration, ExecRequest, Execution,
    FileRule, FileRules, HostPaths, Operation, Outcome, PermissionAmendment, Permissions, RawText, RejectConfig,
    RequestId, ReviewDecision, SandboxPolicy, Violation, ViolationTarget,
};
use stockade_sandboxing::{Backend, CommandSpec, Plan, Running, SpawnError, Stdio, Support, Unenforceable};

use crate::approvals::{ApprovalKey, Confinement, Grant};
use crate::runtime::{
    Approvable, FirstAttempt, Requirement, SandboxPreference, Sandboxable, Shown, ToolContext, ToolRuntime,
};
use crate::verdict::{Verdict, parses};
use crate::{
    Answer, Approver, AuditDemand, AuditSink, MemoryAudit, Orchestrator, RuleStore, RulesOutside, RunError, Session,
    ShellRuntime, Unanswered,
};

/// Makes plans that nothing is started with.
struct Paper;

#[derive(Debug)]
struct PaperPlan(Permissions);

impl fmt::Display for PaperPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Plan for PaperPlan {
    fn spawn(&self, _: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        panic!("nothing is started here")
    }

    fn permissions(&self) -> &Permissions {
        &self.0
    }
}

impl Backend for Paper {
    fn support(&self) -> &Support {
        static NONE: Support = Support { engine: String::new(), layers: Vec::new() };
        &NONE
    }

    fn compile(&self, _: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        Ok(Box::new(PaperPlan(permissions.clone())))
    }

    fn sees_starts(&self) -> bool {
        true
    }
}

/// Says the same to every question.
struct Says(ReviewDecision, Mutex<Vec<ApprovalRequest>>);

#[async_trait]
impl Approver for Says {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        self.1.lock().unwrap().push(ApprovalRequest::clone(&request));
        Ok(self.0.clone().into())
    }
}

/// The tool that runs commands, but for running them.
#[derive(Default)]
struct Kept {
    shell: ShellRuntime,
    /// The grant of each run.
    runs: Mutex<Vec<(Permissions, Confinement)>>,
    /// The permissions that each run would have been held to.
    held: Mutex<Vec<Permissions>>,
    /// The denial of the first run.
    denied: Option<Violation>,
}

impl Approvable<ExecRequest> for Kept {
    fn id<'a>(&self, request: &'a ExecRequest) -> &'a RequestId {
        self.shell.id(request)
    }

    fn requested(&self, request: &ExecRequest) -> Option<AuditEvent> {
        self.shell.requested(request)
    }

    fn keys(&self, request: &ExecRequest, session: &Session) -> Vec<ApprovalKey> {
        self.shell.keys(request, session)
    }

    fn planted_program(&self, request: &ExecRequest, session: &Session, verdict: Option<&Verdict>) -> Option<PathBuf> {
        self.shell.planted_program(request, session, verdict)
    }

    fn subject(&self, request: &ExecRequest, ctx: &ToolContext<'_>, shown: &Shown<'_>) -> ApprovalSubject {
        self.shell.subject(request, ctx, shown)
    }

    fn preapproved<'a>(&self, request: &'a ExecRequest) -> Option<&'a [String]> {
        self.shell.preapproved(request)
    }

    fn requirement(
        &self,
        request: &ExecRequest,
        ctx: &ToolContext<'_>,
        asked_for: &EscalationExecution,
    ) -> Option<Requirement> {
        self.shell.requirement(request, ctx, asked_for)
    }

    fn escalation(&self, request: &ExecRequest) -> EscalationExecution {
        self.shell.escalation(request)
    }

    fn first_attempt(&self, request: &ExecRequest) -> FirstAttempt {
        self.shell.first_attempt(request)
    }
}

impl Sandboxable for Kept {
    fn preference(&self) -> SandboxPreference {
        self.shell.preference()
    }
}

#[async_trait]
impl ToolRuntime<ExecRequest> for Kept {
    type Output = Outcome;

    async fn attempt(&self, request: &ExecRequest, grant: &Grant, ctx: &ToolContext<'_>) -> Result<Outcome, RunError> {
        let plan =
            self.shell.rehearse(request, grant.permissions(), grant.confinement(), ctx).map_err(SpawnError::from)?;
        let mut runs = self.runs.lock().unwrap();
        runs.push((grant.permissions().clone(), grant.confinement()));
        self.held.lock().unwrap().push(plan.permissions().clone());
        let execution = Execution {
            stdout: Default::default(),
            stderr: Default::default(),
            duration_ms: 0,
            enforcement: Enforcement { engine: String::from("none"), layers: Vec::new() },
            violations: self.denied.iter().filter(|_| runs.len() == 1).cloned().collect(),
            programs: Vec::new(),
            first_attempt: None,
        };
        Ok(match execution.violations.is_empty() {
            true => Outcome::Exited { exit_code: 0, execution },
            false => Outcome::Denied { exit_code: Some(1), signal: None, execution },
        })
    }
}

struct Case {
    run: Orchestrator,
    approver: Arc<Says>,
    audit: Arc<MemoryAudit>,
}

fn case(session: Session, rules: &str, says: ReviewDecision) -> Case {
    let approver = Arc::new(Says(says, Mutex::default()));
    let audit: Arc<MemoryAudit> = Arc::default();
    let rules = RuleStore::new(Policy::parse("t.rules", rules, Layer::User).unwrap());
    let run = Orchestrator::new(session, Arc::new(Paper), Arc::clone(&approver) as Arc<dyn Approver>)
        .with_rules(rules)
        .with_audit(Arc::clone(&audit) as Arc<dyn AuditSink>, AuditDemand::Required);
    Case { run, approver, audit }
}

fn session(ask: AskForApproval, sandbox: SandboxPolicy) -> Session {
    let host = HostPaths::without_masks(["/repo".parse().unwrap()]);
    let mut session = Session::new("t".parse().unwrap(), ask, sandbox, &host).unwrap();
    session.environment = [(RawText::from("PATH"), RawText::from("/usr/bin:/bin"))].into();
    session
}

fn request(line: &str, escalation: EscalationExecution) -> ExecRequest {
    ExecRequest {
        id: "r".parse().unwrap(),
        thread_id: "t".parse().unwrap(),
        command: Argv::parse(["bash", "-c", line]).unwrap(),
        cwd: "/repo".parse().unwrap(),
        expiration: ExecExpiration::DefaultTimeout,
        escalation,
        justification: None,
        terminal: None,
        approved_by_policy: false,
        sandbox_warnings: Vec::new(),
    }
}

fn writing(path: &str) -> Permissions {
    let files = FileRules::new([FileRule::path(path.parse().unwrap(), Access::Write)]).unwrap();
    Permissions { files, ..Permissions::default() }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Asked about before it runs, denied, and asked about again.
#[test]
fn a_line_is_parsed_once_for_two_questions_and_two_runs() {
    let session = session(AskForApproval::Untrusted, SandboxPolicy::workspace_write());
    let Case { run, approver, .. } = case(session, "", ReviewDecision::Approved);
    // It has to exist to be granted.
    let path: AbsPath = "/usr".parse().unwrap();
    let denied = Violation {
        operation: Operation::Write,
        target: ViolationTarget::Path(path.clone()),
        rule: Some(DenyingRule::NotGranted),
        amendment: Some(PermissionAmendment::File(FileRule::path(path, Access::Write))),
        pid: None,
        program: None,
        evidence: Evidence::Guessed,
    };
    let tool = Kept { denied: Some(denied), ..Kept::default() };
    let request = request("make && touch /usr/made | tee x", EscalationExecution::TurnDefault);
    let before = parses();
    block_on(run.run_with(&tool, &request)).unwrap();
    assert_eq!(approver.1.lock().unwrap().len(), 2);
    assert_eq!(tool.runs.lock().unwrap().len(), 2);
    assert_eq!(parses() - before, 1);
    run.explain(&request).unwrap();
    assert_eq!(parses() - before, 2);
}

/// What was left to the starts of programs is asked about if the way out is a run where none is seen.
#[test]
fn a_way_out_of_the_sandbox_says_what_was_left_to_the_starts() {
    let denied = || Violation {
        operation: Operation::Connect,
        target: ViolationTarget::UnixSocket("/run/x".parse().unwrap()),
        rule: Some(DenyingRule::NotGranted),
        amendment: None,
        pid: None,
        program: None,
        evidence: Evidence::Guessed,
    };
    let rules = "prefix_rule(pattern = ['git', 'push'], decision = 'prompt')";
    let rejecting = RejectConfig { rules: true, ..RejectConfig::default() };
    for (ask, line, asked) in [
        (AskForApproval::OnFailure, "$x y", Some("Outside, programs are not judged when they start: ")),
        (AskForApproval::OnFailure, "touch made", Some("retry without the sandbox?")),
        (AskForApproval::Reject(rejecting), "$x y", None),
        (AskForApproval::Reject(rejecting), "touch made", Some("retry without the sandbox?")),
    ] {
        let Case { run, approver, .. } =
            case(session(ask, SandboxPolicy::workspace_write()), rules, ReviewDecision::Approved);
        let tool = Kept { denied: Some(denied()), ..Kept::default() };
        block_on(run.run_with(&tool, &request(line, EscalationExecution::TurnDefault))).unwrap();
        let questions = approver.1.lock().unwrap();
        let reasons: Vec<&str> = questions.iter().filter_map(|question| question.reason.as_deref()).collect();
        match asked {
            Some(asked) => assert!(reasons.len() == 1 && reasons[0].contains(asked), "{ask:?} {line}: {reasons:?}"),
            None => assert!(reasons.is_empty(), "{ask:?} {line}: {reasons:?}"),
        }
    }
}

const PARTS: &[&str] = &[
    "ls -l",
    "cat /etc/passwd",
    "cat ~/.ssh/id_rsa",
    "rm -rf /",
    "rm -rf ~/x",
    "git push",
    "git status",
    "npm test",
    "make",
    "make -C $(pwd)",
    "curl http://evil.test",
    "sudo ls",
    "touch made",
    "echo $HOME > /etc/x",
    "bash -c 'git push; ls'",
    "env A=b make",
    "xargs -0 rm",
    "./planted",
    "dd if=/dev/zero of=/dev/sda",
    "$x y",
    "eval \"$x\"",
    "",
    "'",
];

const RULES: &[&str] = &[
    "",
    "prefix_rule(pattern = ['make'], decision = 'allow')",
    "prefix_rule(pattern = ['make'], decision = 'allow', outside = True)",
    "prefix_rule(pattern = ['git', 'push'], decision = 'prompt', justification = 'it leaves the machine')",
    "prefix_rule(pattern = ['npm'], decision = 'forbidden')\nprefix_rule(pattern = ['ls'], decision = 'allow')",
];

fn line() -> impl Strategy<Value = String> {
    let joint = prop_oneof![Just("; "), Just(" && "), Just(" | "), Just(" || "), Just("\n"), Just(" & ")];
    let part = prop_oneof![
        9 => proptest::sample::select(PARTS).prop_map(String::from),
        1 => "[ -~]{0,12}",
    ];
    proptest::collection::vec((part, joint), 1..4)
        .prop_map(|parts| parts.into_iter().map(|(part, joint)| part + joint).collect())
}

fn ask() -> impl Strategy<Value = AskForApproval> {
    let reject = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(sandbox_approval, rules, more)| {
        let reject = RejectConfig { sandbox_approval, rules, request_permissions: more, ..RejectConfig::default() };
        AskForApproval::Reject(reject)
    });
    prop_oneof![
        Just(AskForApproval::Untrusted),
        Just(AskForApproval::OnFailure),
        Just(AskForApproval::OnRequest),
        Just(AskForApproval::Never),
        reject,
    ]
}

fn sandbox() -> impl Strategy<Value = SandboxPolicy> {
    let read_only = serde_json::from_value(serde_json::json!({ "type": "read-only" })).unwrap();
    let external = serde_json::from_value(serde_json::json!({ "type": "external-sandbox" })).unwrap();
    proptest::sample::select(vec![
        SandboxPolicy::workspace_write(),
        read_only,
        SandboxPolicy::DangerFullAccess {},
        external,
    ])
}

fn escalation() -> impl Strategy<Value = EscalationExecution> {
    proptest::sample::select(vec![
        EscalationExecution::TurnDefault,
        EscalationExecution::TurnDefault,
        EscalationExecution::Unsandboxed,
        EscalationExecution::Permissions(Box::new(writing("/opt/cache"))),
        EscalationExecution::Permissions(Box::new(writing("/denied/x"))),
    ])
}

/// Settings of a session besides its policy.
#[derive(Clone, Copy, Debug)]
struct Extras {
    denies: bool,
    has_maximum: bool,
    /// Whether the approval is remembered.
    remembers: bool,
    in_advance: bool,
    preapproved: bool,
    outside: RulesOutside,
    preference: SandboxPreference,
}

fn extras() -> impl Strategy<Value = Extras> {
    let outside = prop_oneof![Just(RulesOutside::Never), Just(RulesOutside::Said), Just(RulesOutside::Unsaid)];
    let preference = prop_oneof![
        4 => Just(SandboxPreference::Auto),
        1 => Just(SandboxPreference::Require),
        1 => Just(SandboxPreference::Forbid),
    ];
    let flags =
        (any::<bool>(), proptest::bool::weighted(0.2), any::<bool>(), any::<bool>(), proptest::bool::weighted(0.1));
    (flags, outside, preference).prop_map(|(flags, outside, preference)| {
        let (denies, has_maximum, remembers, in_advance, preapproved) = flags;
        Extras { denies, has_maximum, remembers, in_advance, preapproved, outside, preference }
    })
}

fn world(ask: AskForApproval, sandbox: SandboxPolicy, rules: &str, extras: Extras) -> Case {
    let mut session = session(ask, sandbox);
    if extras.denies {
        let denial = FileRule::path("/denied".parse().unwrap(), Access::None);
        session.permissions.files = FileRules::new(session.permissions.files.iter().cloned().chain([denial])).unwrap();
    }
    if extras.has_maximum {
        session.maximum = Some(writing("/repo"));
    }
    session.rules_outside = extras.outside;
    case(session, rules, ReviewDecision::Denied { reason: None })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_explained_is_what_happens(
        line in line(), ask in ask(), sandbox in sandbox(), escalation in escalation(),
        rules in proptest::sample::select(RULES), extras in extras(),
    ) {
        let Case { run, approver, audit } = world(ask, sandbox, rules, extras);
        let mut request = request(&line, escalation.clone());
        request.approved_by_policy = extras.preapproved;
        let tool = Kept {
            shell: ShellRuntime { preference: extras.preference, ..ShellRuntime::default() },
            ..Kept::default()
        };
        if extras.remembers {
            run.approvals.memory.remember(tool.keys(&request, &run.session()), &escalation);
        }
        if extras.in_advance {
            run.approvals.memory.allow_once(&run.session(), writing("/opt/cache"));
        }
        let before = parses();
        let explained = run.explain_with(&tool.shell, &request).unwrap();
        prop_assert_eq!(parses() - before, 1);
        let outcome = block_on(run.run_with(&tool, &request)).unwrap();
        prop_assert_eq!(parses() - before, 2);

        let asked = std::mem::take(&mut *approver.1.lock().unwrap());
        let runs = std::mem::take(&mut *tool.runs.lock().unwrap());
        let decided = audit.of(&request.id).into_iter().find_map(|event| {
            let AuditEvent::Decided { decision, source, .. } = event else { return None };
            Some((decision, source))
        });
        match explained.requirement {
            ExecApprovalRequirement::Forbidden { reason } => {
                let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
                prop_assert_eq!(refusal.reason, reason);
                prop_assert_eq!(decided, Some((Decision::Forbidden, explained.source)));
                prop_assert!(asked.is_empty() && runs.is_empty());
            }
            ExecApprovalRequirement::NeedsApproval { reason, proposed_execpolicy_amendment } => {
                let [question] = <[ApprovalRequest; 1]>::try_from(asked).unwrap();
                prop_assert_eq!(question.reason, reason);
                let ApprovalSubject::Command(command) = question.subject else { panic!() };
                prop_assert_eq!(command.parsed, explained.parsed);
                prop_assert_eq!(command.proposed_execpolicy_amendment, proposed_execpolicy_amendment);
                prop_assert!(matches!(outcome, Outcome::Refused(_)) && runs.is_empty());
            }
            ExecApprovalRequirement::Skip { bypass_sandbox, .. } => {
                let [(permissions, confinement)] = <[_; 1]>::try_from(runs).unwrap();
                prop_assert_eq!(&permissions, &explained.permissions);
                prop_assert_eq!(&*tool.held.lock().unwrap(), &[permissions]);
                prop_assert_eq!(confinement == Confinement::Sandbox, explained.sandboxed);
                prop_assert!(!bypass_sandbox || !explained.sandboxed);
                prop_assert_eq!(decided, Some((Decision::Allow, explained.source)));
                prop_assert!(asked.is_empty());
            }
        }
    }
}

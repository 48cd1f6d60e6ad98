//! Random values of every type. Paths, hosts and names come from small alphabets, so that rules
//! really meet each other.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use stockade_protocol::*;

pub(crate) fn any_path() -> impl Strategy<Value = AbsPath> {
    vec("[ab]", 0..5).prop_map(|names| AbsPath::parse(format!("/{}", names.join("/"))).unwrap())
}

/// Any path that the wire can carry, not only the small ones.
fn wild_path() -> impl Strategy<Value = AbsPath> {
    let unix = vec(any::<Vec<u8>>(), 0..4).prop_filter_map("a path", |names| {
        let names =
            names.iter().map(|name| name.iter().copied().filter(|byte| !matches!(byte, 0 | b'/')).collect::<Vec<_>>());
        AbsPath::parse(names.fold(b"/".to_vec(), |path, name| [path, name, b"/".to_vec()].concat())).ok()
    });
    prop_oneof![
        unix,
        any_path(),
        Just(AbsPath::parse(r"C:\Users\me").unwrap()),
        Just(AbsPath::parse(r"\\srv\share\x").unwrap())
    ]
}

fn raw_text() -> impl Strategy<Value = RawText> {
    prop_oneof![any::<String>().prop_map(RawText::from), any::<Vec<u8>>().prop_map(RawText::from)]
}

fn argv() -> impl Strategy<Value = Argv> {
    vec(raw_text(), 1..4).prop_filter_map("words for a process", |words| Argv::parse(words).ok())
}

pub(crate) fn any_host() -> impl Strategy<Value = Host> {
    let name = vec("[ab]", 1..4).prop_map(|labels| labels.join(".") + ".test");
    let other = ["10.0.0.1", "1.1.1.1", "::1", "127.0.0.1", "localhost"].map(String::from);
    prop_oneof![1 => name, 3 => prop::sample::select(other.to_vec())].prop_map(|text| text.parse().unwrap())
}

fn host_pattern() -> impl Strategy<Value = HostPattern> {
    let domain = vec("[ab]", 0..3)
        .prop_map(|labels| labels.iter().map(|label| format!("{label}.")).collect::<String>() + "test");
    let wild = (prop_oneof![Just("*."), Just("**.")], domain)
        .prop_map(|(star, domain)| format!("{star}{domain}").parse().unwrap());
    let network =
        prop::sample::select(vec!["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/16", "fd00::/8", "93.184.0.0/16"])
            .prop_map(|text| text.parse().unwrap());
    prop_oneof![any_host().prop_map(HostPattern::Exact), wild, network]
}

pub(crate) fn protocol() -> impl Strategy<Value = NetworkProtocol> {
    prop_oneof![
        Just(NetworkProtocol::Http),
        Just(NetworkProtocol::Https),
        Just(NetworkProtocol::Tcp),
        Just(NetworkProtocol::Udp)
    ]
}

pub(crate) fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![Just(Decision::Allow), Just(Decision::Prompt), Just(Decision::Forbidden)]
}

fn host_rule() -> impl Strategy<Value = HostRule> {
    (host_pattern(), option::of(protocol()), option::of(1_u16..4), decision())
        .prop_map(|(host, protocol, port, decision)| HostRule { host, protocol, port, decision })
}

pub(crate) fn network() -> impl Strategy<Value = NetworkPolicy> {
    let methods = prop_oneof![Just(HttpMethods::Any), Just(HttpMethods::ReadOnly)];
    let hosts = (vec(host_rule(), 0..6), methods)
        .prop_map(|(rules, methods)| NetworkPolicy::Hosts(HostRules { rules, methods }));
    prop_oneof![1 => Just(NetworkPolicy::Off), 1 => Just(NetworkPolicy::Full), 4 => hosts]
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::None), Just(Access::Scratch), Just(Access::Read), Just(Access::Write)]
}

fn source() -> impl Strategy<Value = RuleSource> {
    prop_oneof![
        Just(RuleSource::Administrator),
        Just(RuleSource::Policy),
        Just(RuleSource::ProtectedMetadata),
        Just(RuleSource::CredentialMask),
        Just(RuleSource::Approval),
        Just(RuleSource::OwnFiles),
        Just(RuleSource::OwnFilesLink),
    ]
}

fn glob() -> impl Strategy<Value = Glob> {
    (any_path(), prop_oneof![Just("*"), Just("**/a"), Just("?/b"), Just("[!a]"), Just("*/a")])
        .prop_filter_map("a directory in front", |(base, tail)| format!("{base}/{tail}").parse().ok())
}

fn file_rule() -> impl Strategy<Value = FileRule> {
    prop_oneof![
        5 => (any_path(), access(), source()).prop_map(|(path, access, source)| FileRule::path(path, access).from_source(source)),
        1 => (glob(), source()).prop_map(|(glob, source)| FileRule::deny_glob(glob).from_source(source)),
    ]
}

pub(crate) fn access_rules() -> impl Strategy<Value = Vec<FileRule>> {
    vec(file_rule(), 0..8)
}

fn limits() -> impl Strategy<Value = ResourceLimits> {
    let limit = || option::of((1_u64..).prop_map(|count| NonZeroU64::new(count).unwrap()));
    (limit(), limit(), limit(), limit(), limit()).prop_map(
        |(cpu_seconds, memory_bytes, processes, file_size_bytes, open_files)| ResourceLimits {
            cpu_seconds,
            memory_bytes,
            processes,
            file_size_bytes,
            open_files,
        },
    )
}

fn environment() -> impl Strategy<Value = EnvironmentPolicy> {
    let inherit =
        prop_oneof![Just(EnvironmentInherit::None), Just(EnvironmentInherit::Core), Just(EnvironmentInherit::All)];
    let patterns = || btree_set("[A-C*?]{1,3}".prop_map(|text| text.parse::<NamePattern>().unwrap()), 0..3);
    let set = btree_map("[A-C]{1,2}".prop_map(|text| text.parse::<VariableName>().unwrap()), any::<String>(), 0..2);
    (inherit, any::<bool>(), patterns(), set, patterns()).prop_map(
        |(inherit, ignore_default_excludes, exclude, set, include_only)| EnvironmentPolicy {
            inherit,
            ignore_default_excludes,
            exclude,
            set,
            include_only,
        },
    )
}

pub(crate) fn permissions() -> BoxedStrategy<Permissions> {
    (access_rules(), network(), btree_set(any_path(), 0..3), limits(), environment())
        .prop_map(|(files, network, unix_sockets, limits, environment): (_, _, BTreeSet<AbsPath>, _, _)| Permissions {
            files: FileRules::new(files).unwrap(),
            network,
            unix_sockets,
            limits,
            environment,
        })
        .boxed()
}

pub(crate) fn ask() -> impl Strategy<Value = AskForApproval> {
    let reject = any::<[bool; 5]>().prop_map(
        |[sandbox_approval, rules, request_permissions, skill_approval, mcp_elicitations]| {
            AskForApproval::Reject(RejectConfig {
                sandbox_approval,
                rules,
                request_permissions,
                skill_approval,
                mcp_elicitations,
            })
        },
    );
    let word = prop_oneof![
        Just(AskForApproval::Untrusted),
        Just(AskForApproval::OnFailure),
        Just(AskForApproval::OnRequest),
        Just(AskForApproval::Never)
    ];
    prop_oneof![word, reject]
}

fn network_amendment() -> impl Strategy<Value = NetworkPolicyAmendment> {
    let action = prop_oneof![Just(NetworkPolicyRuleAction::Allow), Just(NetworkPolicyRuleAction::Deny)];
    (host_pattern(), action, option::of(protocol()), option::of(any::<u16>()))
        .prop_map(|(host, action, protocol, port)| NetworkPolicyAmendment { host, action, protocol, port })
}

fn profile_amendment() -> impl Strategy<Value = ProfileAmendment> {
    (wild_path(), argv(), vec(wild_path(), 1..3), vec(wild_path(), 1..3))
        .prop_map(|(file, command, workspace, write)| ProfileAmendment { file, command, workspace, write })
}

pub(crate) fn review_decision() -> impl Strategy<Value = ReviewDecision> {
    prop_oneof![
        Just(ReviewDecision::Approved),
        Just(ReviewDecision::ApprovedForRun),
        Just(ReviewDecision::ApprovedForSession),
        argv().prop_map(|prefix| ReviewDecision::ApprovedExecpolicyAmendment {
            proposed_execpolicy_amendment: ExecPolicyAmendment(prefix)
        }),
        profile_amendment().prop_map(|proposed_profile_amendment| ReviewDecision::ApprovedProfileAmendment {
            proposed_profile_amendment
        }),
        network_amendment()
            .prop_map(|network_policy_amendment| ReviewDecision::NetworkPolicyAmendment { network_policy_amendment }),
        option::of(any::<String>()).prop_map(|reason| ReviewDecision::Denied { reason }),
        Just(ReviewDecision::DeniedForRun),
        Just(ReviewDecision::TimedOut),
        Just(ReviewDecision::Abort),
    ]
}

fn read_only_access() -> impl Strategy<Value = ReadOnlyAccess> {
    let restricted = (any::<bool>(), vec(wild_path(), 0..3)).prop_map(|(include_platform_defaults, readable_roots)| {
        ReadOnlyAccess::Restricted { include_platform_defaults, readable_roots }
    });
    prop_oneof![Just(ReadOnlyAccess::FullAccess {}), restricted]
}

pub(crate) fn sandbox_policy() -> BoxedStrategy<SandboxPolicy> {
    let network_access = prop_oneof![Just(NetworkAccess::Restricted), Just(NetworkAccess::Enabled)];
    prop_oneof![
        Just(SandboxPolicy::DangerFullAccess {}),
        (read_only_access(), any::<bool>())
            .prop_map(|(access, network_access)| SandboxPolicy::ReadOnly { access, network_access }),
        network_access.prop_map(|network_access| SandboxPolicy::ExternalSandbox { network_access }),
        (vec(wild_path(), 0..3), read_only_access(), any::<[bool; 3]>()).prop_map(
            |(writable_roots, read_only_access, switches)| {
                let [network_access, exclude_tmpdir_env_var, exclude_slash_tmp] = switches;
                SandboxPolicy::WorkspaceWrite {
                    writable_roots,
                    read_only_access,
                    network_access,
                    exclude_tmpdir_env_var,
                    exclude_slash_tmp,
                }
            }
        ),
    ]
    .boxed()
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![3 => raw_text().prop_map(Word::Known), 1 => Just(Word::Unknown)]
}

pub(crate) fn parsed_line() -> BoxedStrategy<ParsedLine> {
    let role = prop_oneof![Just(CommandRole::Runs), Just(CommandRole::Wrapper)];
    let words = || vec(word(), 0..3);
    let command = (words(), role, vec(any::<String>(), 0..2), words(), words(), option::of(any::<String>())).prop_map(
        |(words, role, assigns, writes, reads, via)| ParsedCommand { words, role, assigns, writes, reads, via },
    );
    (vec(command, 0..3), option::of(any::<String>()))
        .prop_map(|(commands, opaque)| ParsedLine { commands, opaque })
        .boxed()
}

fn request_id() -> impl Strategy<Value = RequestId> {
    "[A-Za-z0-9_.:/-]{1,128}".prop_map(|text| text.parse().unwrap())
}

fn thread_id() -> impl Strategy<Value = ThreadId> {
    "[a-z]{1,8}".prop_map(|text| text.parse().unwrap())
}

fn escalation() -> BoxedStrategy<EscalationExecution> {
    prop_oneof![
        Just(EscalationExecution::TurnDefault),
        Just(EscalationExecution::Unsandboxed),
        permissions().prop_map(|permissions| EscalationExecution::Permissions(Box::new(permissions))),
    ]
    .boxed()
}

pub(crate) fn exec_request() -> impl Strategy<Value = ExecRequest> {
    let expiration = prop_oneof![
        Just(ExecExpiration::DefaultTimeout),
        (1_u64..).prop_map(|ms| ExecExpiration::Timeout { milliseconds: NonZeroU64::new(ms).unwrap() }),
        "[a-z]{1,8}".prop_map(|token| ExecExpiration::Cancellation { token: token.parse().unwrap() }),
    ];
    let terminal = option::of((any::<u16>(), any::<u16>()).prop_map(|(rows, columns)| TerminalSize { rows, columns }));
    let extras = (option::of(any::<String>()), terminal, any::<bool>(), vec(any::<String>(), 0..2));
    (request_id(), thread_id(), argv(), wild_path(), expiration, escalation(), extras).prop_map(
        |(
            id,
            thread_id,
            command,
            cwd,
            expiration,
            escalation,
            (justification, terminal, approved_by_policy, sandbox_warnings),
        )| {
            ExecRequest {
                id,
                thread_id,
                command,
                cwd,
                expiration,
                escalation,
                justification,
                terminal,
                approved_by_policy,
                sandbox_warnings,
            }
        },
    )
}

fn destination() -> BoxedStrategy<Destination> {
    (any_host(), protocol(), any::<u16>())
        .prop_map(|(host, protocol, port)| Destination { host, protocol, port })
        .boxed()
}

pub(crate) fn violation() -> BoxedStrategy<Violation> {
    let operation = prop_oneof![
        Just(Operation::Read),
        Just(Operation::Write),
        Just(Operation::Connect),
        Just(Operation::SystemCall)
    ];
    let target = prop_oneof![
        wild_path().prop_map(ViolationTarget::Path),
        destination().prop_map(ViolationTarget::Destination),
        wild_path().prop_map(ViolationTarget::UnixSocket),
        any::<String>().prop_map(ViolationTarget::SystemCall),
        any::<u32>().prop_map(ViolationTarget::Process),
        argv().prop_map(ViolationTarget::Command),
    ];
    let evidence = prop_oneof![Just(Evidence::Observed), Just(Evidence::Reported), Just(Evidence::Guessed)];
    let rule = prop_oneof![
        file_rule().prop_map(DenyingRule::File),
        host_rule().prop_map(DenyingRule::Network),
        Just(DenyingRule::NotGranted),
        any::<String>().prop_map(|reason| DenyingRule::Command { reason }),
        any::<String>().prop_map(|reason| DenyingRule::Layer { reason }),
    ];
    let amendment = prop_oneof![
        file_rule().prop_map(PermissionAmendment::File),
        host_rule().prop_map(PermissionAmendment::Network),
        wild_path().prop_map(PermissionAmendment::UnixSocket),
    ];
    (
        operation,
        target,
        evidence,
        option::of(any::<u32>()),
        option::of(raw_text()),
        option::of(rule),
        option::of(amendment),
    )
        .prop_map(|(operation, target, evidence, pid, program, rule, amendment)| Violation {
            operation,
            target,
            evidence,
            pid,
            program,
            rule,
            amendment,
        })
        .boxed()
}

fn json_object() -> impl Strategy<Value = BTreeMap<String, serde_json::Value>> {
    let value = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    btree_map(any::<String>(), value, 0..3)
}

fn file_change() -> impl Strategy<Value = FileChange> {
    prop_oneof![
        (wild_path(), raw_text()).prop_map(|(path, content)| FileChange::Add { path, content }),
        (wild_path(), raw_text()).prop_map(|(path, content)| FileChange::Delete { path, content }),
        (wild_path(), raw_text(), option::of(wild_path()))
            .prop_map(|(path, unified_diff, move_path)| FileChange::Update { path, unified_diff, move_path }),
    ]
}

fn subject() -> BoxedStrategy<ApprovalSubject> {
    let words = (option::of(any::<String>()), option::of(argv()), vec(argv(), 0..3));
    let command = (argv(), wild_path(), parsed_line(), escalation(), vec(violation(), 0..2), words).prop_map(
        |(command, cwd, parsed, escalation, violations, (justification, amendment, started_by))| {
            let proposed_execpolicy_amendment = amendment.map(ExecPolicyAmendment);
            ApprovalSubject::Command(Box::new(CommandApproval {
                command,
                cwd,
                parsed,
                escalation,
                justification,
                violations,
                proposed_execpolicy_amendment,
                started_by,
            }))
        },
    );
    let patch = (vec(file_change(), 0..3), option::of(wild_path()))
        .prop_map(|(changes, grant_root)| ApprovalSubject::Patch(PatchApproval { changes, grant_root }));
    let leads_to = vec(any_host(), 0..2);
    let network = (destination(), leads_to, option::of(raw_text()), vec(network_amendment(), 0..2)).prop_map(
        |(Destination { host, protocol, port }, leads_to, program, proposed_network_policy_amendments)| {
            ApprovalSubject::Network(NetworkApproval {
                host,
                protocol,
                port,
                leads_to,
                program,
                proposed_network_policy_amendments,
            })
        },
    );
    let operation = prop::sample::select(vec![
        WriteOperation::Write,
        WriteOperation::Create,
        WriteOperation::MakeDirectory,
        WriteOperation::Replace,
    ]);
    let paths = || vec(wild_path(), 0..3);
    let write = (operation, paths(), paths(), option::of(raw_text()), option::of(profile_amendment())).prop_map(
        |(operation, paths, directories, program, proposed_profile_amendment)| {
            ApprovalSubject::Write(WriteApproval { operation, paths, directories, program, proposed_profile_amendment })
        },
    );
    let wanted = (permissions(), option::of(any::<String>())).prop_map(|(permissions, justification)| {
        ApprovalSubject::Permissions(Box::new(PermissionsApproval { permissions, justification }))
    });
    let call = (any::<String>(), any::<String>(), json_object()).prop_map(|(server, tool, arguments)| {
        ApprovalSubject::ToolCall(ToolCallApproval { server, tool, arguments, remember: RememberArguments::Exact })
    });
    let elicitation = (any::<String>(), any::<String>(), option::of(json_object())).prop_map(
        |(server, message, requested_schema)| {
            ApprovalSubject::Elicitation(ElicitationApproval { server, message, requested_schema })
        },
    );
    prop_oneof![
        command.boxed(),
        patch.boxed(),
        network.boxed(),
        write.boxed(),
        wanted.boxed(),
        call.boxed(),
        elicitation.boxed()
    ]
    .boxed()
}

pub(crate) fn approval_request() -> impl Strategy<Value = ApprovalRequest> {
    let resolved = (wild_path(), wild_path()).prop_map(|(given, resolved)| ResolvedPath { given, resolved });
    let level = prop_oneof![Just(RiskLevel::Low), Just(RiskLevel::Medium), Just(RiskLevel::High)];
    let risk = (level, any::<String>(), any::<String>()).prop_map(|(level, category, summary)| RiskAssessment {
        level,
        category,
        summary,
    });
    (request_id(), thread_id(), subject(), option::of(any::<String>()), option::of(risk), vec(resolved, 0..2)).prop_map(
        |(id, thread_id, subject, reason, risk, resolved_paths)| ApprovalRequest {
            reason,
            risk,
            resolved_paths,
            ..ApprovalRequest::new(id, thread_id, subject)
        },
    )
}

fn enforcement() -> BoxedStrategy<Enforcement> {
    let status = prop_oneof![
        Just(LayerStatus::NotEnforced),
        Just(LayerStatus::PartlyEnforced),
        Just(LayerStatus::FullyEnforced)
    ];
    let layer = (any::<String>(), status, option::of(any::<String>()))
        .prop_map(|(layer, status, detail)| LayerReport { layer, status, detail });
    (any::<String>(), vec(layer, 0..3)).prop_map(|(engine, layers)| Enforcement { engine, layers }).boxed()
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let by =
        prop_oneof![Just(RefusedBy::Rule), Just(RefusedBy::Reviewer), Just(RefusedBy::Sandbox), Just(RefusedBy::Usage)];
    (by, any::<String>()).prop_map(|(by, reason)| Refusal { by, reason })
}

fn judged_program() -> impl Strategy<Value = JudgedProgram> {
    (argv(), vec(argv(), 0..3), decision(), decider(), option::of(any::<String>()), option::of(escalation())).prop_map(
        |(command, started_by, decision, source, reason, execution)| JudgedProgram {
            command,
            started_by,
            decision,
            source,
            reason,
            execution,
        },
    )
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    let output = || {
        (raw_text(), any::<u64>(), raw_text()).prop_map(|(head, omitted_bytes, tail)| CapturedOutput {
            head,
            omitted_bytes,
            tail,
        })
    };
    // Boxed, since the types of nested strategies fill the stack of a test thread otherwise.
    let execution = || {
        (output(), output(), any::<u64>(), enforcement(), vec(violation(), 0..2), vec(judged_program(), 0..2)).prop_map(
            |(stdout, stderr, duration_ms, enforcement, violations, programs)| Execution {
                stdout,
                stderr,
                duration_ms,
                enforcement,
                violations,
                programs,
                first_attempt: None,
            },
        )
    };
    prop_oneof![
        (any::<i32>(), execution()).prop_map(|(exit_code, execution)| Outcome::Exited { exit_code, execution }),
        (option::of(any::<i32>()), option::of(any::<i32>()), execution())
            .prop_map(|(exit_code, signal, execution)| Outcome::Denied { exit_code, signal, execution }),
        refusal().prop_map(Outcome::Refused),
        execution().prop_map(|execution| Outcome::TimedOut { execution }),
        (any::<String>(), execution()).prop_map(|(reason, execution)| Outcome::Cancelled { reason, execution }),
        (any::<i32>(), execution()).prop_map(|(signal, execution)| Outcome::Signaled { signal, execution }),
    ]
}

fn decider() -> impl Strategy<Value = DecisionSource> {
    prop_oneof![
        any::<String>().prop_map(DecisionSource::Rule),
        Just(DecisionSource::Fallback),
        Just(DecisionSource::SessionMemory),
        Just(DecisionSource::External)
    ]
}

pub(crate) fn audit_record() -> impl Strategy<Value = AuditRecord> {
    let source = decider;
    let hash = || any::<[u8; 32]>().prop_map(RecordHash);
    let whole =
        (any::<u64>(), any::<u64>(), hash()).prop_map(|(words, bytes, sha256)| WholeCommand { words, bytes, sha256 });
    let event = prop_oneof![
        (argv(), wild_path(), escalation(), option::of(whole.clone())).prop_map(|(command, cwd, escalation, whole)| {
            AuditEvent::Requested { command, cwd, escalation, whole }
        }),
        any::<u64>().prop_map(|events| AuditEvent::Unrecorded { events }),
        (decision(), source(), option::of(any::<String>()), vec(any::<String>(), 0..2)).prop_map(
            |(decision, source, reason, sandbox_warnings)| AuditEvent::Decided {
                decision,
                source,
                reason,
                sandbox_warnings
            }
        ),
        vec(wild_path(), 0..3).prop_map(|paths| AuditEvent::PatchRequested { paths }),
        vec(wild_path(), 0..3).prop_map(|paths| AuditEvent::Patched { paths }),
        (
            argv(),
            wild_path(),
            vec(argv(), 0..3),
            option::of(any::<u32>()),
            decision(),
            source(),
            option::of(any::<String>()),
            option::of(escalation()),
            option::of(whole)
        )
            .prop_map(|(command, cwd, started_by, pid, decision, source, reason, execution, whole)| {
                AuditEvent::ProgramJudged { command, whole, cwd, started_by, pid, decision, source, reason, execution }
            }),
        (vec(wild_path(), 0..3), any::<u64>()).prop_map(|(paths, calls)| AuditEvent::WrittenOutside { paths, calls }),
        (any::<String>(), any::<String>()).prop_map(|(server, tool)| AuditEvent::ToolRequested { server, tool }),
        any::<u64>().prop_map(|duration_ms| AuditEvent::ToolCalled { duration_ms }),
        any::<String>().prop_map(|reason| AuditEvent::Failed { reason }),
        Just(AuditEvent::ToolApproved {}),
        (any::<String>(), option::of(any::<String>()), vec(wild_path(), 0..3), ask(), sandbox_policy()).prop_map(
            |(client, name, workspace, ask, sandbox)| AuditEvent::SessionOpened {
                client,
                name,
                workspace,
                ask,
                sandbox
            }
        ),
        (any::<String>(), ask(), sandbox_policy()).prop_map(|(client, ask, sandbox)| AuditEvent::SessionChanged {
            client,
            ask,
            sandbox
        }),
        (any::<String>(), any::<u64>()).prop_map(|(reason, commands)| AuditEvent::SessionClosed { reason, commands }),
        (permissions(), option::of(any::<String>())).prop_map(|(permissions, justification)| {
            AuditEvent::PermissionsRequested { permissions: Box::new(permissions), justification }
        }),
        (permissions(), prop_oneof![Just(PermissionsScope::Session), Just(PermissionsScope::Once)]).prop_map(
            |(permissions, scope)| AuditEvent::PermissionsGranted { permissions: Box::new(permissions), scope }
        ),
        subject().prop_map(|subject| AuditEvent::Asked { subject }),
        (review_decision(), any::<bool>(), any::<u64>())
            .prop_map(|(decision, in_time, duration_ms)| AuditEvent::Answered { decision, in_time, duration_ms }),
        (destination(), decision(), source(), any::<u64>()).prop_map(|(destination, decision, source, times)| {
            AuditEvent::Connected { destination, decision, source, times }
        }),
        refusal().prop_map(AuditEvent::Refused),
        (any::<String>(), option::of(any::<i32>()), any::<u64>(), enforcement(), vec(violation(), 0..2)).prop_map(
            |(result, exit_code, duration_ms, enforcement, violations)| AuditEvent::Ended {
                result,
                exit_code,
                duration_ms,
                enforcement,
                violations
            }
        ),
        (any::<u64>(), hash())
            .prop_map(|(bytes, hash)| AuditEvent::Repaired { damage: TrailDamage::Unfinished { bytes, hash } }),
        any::<String>().prop_map(|what| AuditEvent::Repaired { damage: TrailDamage::Unexplained { what } }),
    ];
    (any::<u64>(), any::<u64>(), thread_id(), request_id(), event, hash(), hash()).prop_map(
        |(sequence, time_ms, thread_id, request_id, event, previous, hash)| AuditRecord {
            sequence,
            time_ms,
            thread_id,
            request_id,
            event,
            previous,
            hash,
        },
    )
}

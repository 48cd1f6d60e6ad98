//! Explains what would happen to a command, a path or a host, and why, without doing it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_execpolicy::{Breadth, CheckReport, Placement, Policy, PrefixRule};
use stockade_network_proxy::{LocalNetworks, Rules};
use stockade_protocol::{
    AbsPath, Access, Decision, DecisionSource, Destination, ExecApprovalRequirement, ExecRequest, FileRule, Host,
    NetworkPolicy, NetworkProtocol, ParsedLine, Permissions,
};
use stockade_sandboxing::{OwnPlace, leads_to};

use crate::approvals::Confinement;
use crate::command_requirement::kept_inside;
use crate::connections::named_rules;
use crate::enforced::Enforced;
use crate::judgement::{Judgement, Purpose};
use crate::run::Orchestrator;
use crate::session::Sandboxing;
use crate::shell::{ShellRuntime, held_permissions};
use crate::starts::are_judged;
use crate::verdict::Verdict;

/// Explains what would happen to a command.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// What happens before it runs.
    pub requirement: ExecApprovalRequirement,
    /// Who says so.
    pub source: DecisionSource,
    /// What it runs, part by part.
    pub parsed: ParsedLine,
    /// The rules that match, as `execpolicy check` prints them.
    pub rules: CheckReport,
    /// Whether a sandbox would be built.
    pub sandboxed: bool,
    /// What it would be held to. A network of hosts without a rule is one that is off, and asked for host by host.
    pub permissions: Permissions,
    /// How it would reach the hosts that are granted; none where the network is off or open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_through: Option<HostsThrough>,
    /// Why that can't be enforced here, if it can't: then it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unenforceable: Option<String>,
    /// Ways around the permissions that no kernel can close, and what keeps it in the sandbox against its rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The rules that hold for the programs that it starts, each with its decision and its place; none where no rule
    /// restricts or grants, and where starts are not seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<String>,
    /// Directories whose programs are asked about as scripts of a skill.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<AbsPath>,
    /// The question about what the line does not show, if it is not asked: each program that it starts is judged when
    /// it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_to_starts: Option<String>,
    /// Whether a denial by the sandbox would lead to a question.
    pub asks_after_denial: bool,
}

/// How a command reaches the hosts that are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostsThrough {
    /// By itself: the sandbox sees its connections, whatever program makes them.
    Sandbox,
    /// By a proxy on this machine, for programs that look at the variables for one.
    Proxy,
}

/// What may be done with a path, and why.
#[derive(Clone, Debug, Serialize)]
pub struct PathExplanation {
    /// The path as it was given.
    pub path: AbsPath,
    /// Where it leads, with all symbolic links followed.
    pub resolved: AbsPath,
    /// What may be done with it.
    pub access: Access,
    /// The rule that decides; none if none speaks of it, which puts it out of reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<FileRule>,
    /// What stands there in the sandbox in the place of the host's file, whatever the rules grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
    /// Whether no approval can lift it, but for one to run without the sandbox where that may be asked for.
    pub hard: bool,
}

/// What happens to a connection, and why.
#[derive(Clone, Debug, Serialize)]
pub struct HostExplanation {
    /// Where to.
    pub destination: Destination,
    /// What happens.
    pub decision: Decision,
    /// The rule that decides, and where it stands; none if none names the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

const UNSEEN_STARTS: &str = "rules that restrict hold for this line alone: here it is not seen what its programs start";

/// The rules that restrict or grant, in words.
fn holding_inside(policy: &Policy) -> Vec<String> {
    let rules = policy.rules().filter(|rule| rule.decision() != Decision::Allow || rule.grants());
    let verb = |decision| match decision {
        Decision::Forbidden => "forbidden",
        Decision::Prompt => "asked",
        Decision::Allow => "granted",
    };
    rules.map(|rule| format!("{} {rule}{} ({})", verb(rule.decision()), given(rule), rule.origin())).collect()
}

/// What a rule gives a program that is started, in words.
fn given(rule: &PrefixRule) -> String {
    let profiles: Vec<String> = rule.profiles().iter().map(|name| format!("`{name}`")).collect();
    match rule.breadth() {
        _ if !rule.grants() => String::new(),
        _ if rule.placement(Placement::Inside) == Placement::Outside => {
            String::from(", which runs without the sandbox")
        }
        Breadth::Exact => format!(", with exactly {}", profiles.join(", ")),
        Breadth::Added => format!(", with {}", profiles.join(", ")),
    }
}

impl Orchestrator {
    /// Explains what would happen to a command.
    pub fn explain(&self, request: &ExecRequest) -> Result<Explanation, stockade_protocol::Invalid> {
        self.explain_with(&ShellRuntime::default(), request)
    }

    /// Explains what would happen to a command of `tool`.
    pub fn explain_with(
        &self,
        tool: &ShellRuntime,
        request: &ExecRequest,
    ) -> Result<Explanation, stockade_protocol::Invalid> {
        let in_force = self.in_force().for_request(tool, request);
        let ctx = self.context(&in_force);
        let judgement = self.approvals.judge(tool, request, &ctx, Purpose::Explain);
        let confinement = judgement.confinement;
        let held = held_permissions(&judgement.permissions, confinement, &ctx);
        // Finding out whether connections are intercepted may need a probe.
        let is_held = held.network == judgement.permissions.network || ctx.sandbox.sees_connections();
        let permissions = if is_held { &*held } else { &judgement.permissions };
        let (unenforceable, mut warnings) = match &tool.rehearse(request, permissions, confinement, &ctx) {
            Ok(plan) => (None, plan.warnings().to_vec()),
            Err(refused) => (Some(refused.to_string()), Vec::new()),
        };
        let sandboxed = confinement == Confinement::Sandbox;
        let by_host = sandboxed && matches!(permissions.network, NetworkPolicy::Hosts(_));
        let hosts_through = by_host.then(|| match ctx.sandbox.proxied() {
            Some(_) => HostsThrough::Proxy,
            None => HostsThrough::Sandbox,
        });
        let requirement = judgement.requirement();
        let permissions = permissions.clone();
        drop(held);
        let Judgement { verdict, source, asks_after_denial, .. } = judgement;
        let left_to_starts = verdict.as_ref().and_then(|verdict| verdict.left_to_starts.clone());
        let verdict = verdict.map_or_else(|| Verdict::of(&ctx.rules.policy(), &request.command), |verdict| *verdict);
        if sandboxed {
            warnings.extend(kept_inside(ctx.session, &request.cwd, &verdict));
        }
        let mut inside = Vec::new();
        if are_judged(ctx.session, &ctx.rules.policy(), confinement) {
            if ctx.sandbox.sees_starts() {
                inside = holding_inside(&ctx.rules.policy());
            } else {
                warnings.push(String::from(UNSEEN_STARTS));
            }
        }
        Ok(Explanation {
            rules: verdict.report(),
            requirement,
            source,
            parsed: verdict.parsed,
            sandboxed,
            permissions,
            hosts_through,
            unenforceable,
            warnings,
            inside,
            skills: ctx.session.skills.iter().cloned().collect(),
            left_to_starts,
            asks_after_denial,
        })
    }

    /// Explains the access of this session's commands to a path.
    pub fn explain_path(&self, path: &AbsPath) -> Result<PathExplanation, stockade_protocol::Invalid> {
        let in_force = self.in_force();
        let enforced = Enforced::of(&in_force.session)?;
        let own_place = |at: &AbsPath| {
            let is_on = in_force.session.sandboxing() == Sandboxing::On;
            self.context(&in_force)
                .sandbox
                .own_place(at, enforced.files())
                .filter(|_| is_on)
                .map(|own| (at.clone(), own))
        };
        let resolved = leads_to(path);
        if let Some((resolved, OwnPlace { access, what })) = own_place(path).or_else(|| own_place(&resolved)) {
            let (path, hard) = (path.clone(), access == Access::None);
            return Ok(PathExplanation { path, resolved, access, rule: None, own: Some(what), hard });
        }
        let rule = enforced.deciding(&resolved).cloned();
        let hard = rule.as_ref().is_some_and(|rule| rule.is_hard_denial() || rule.is_bound());
        Ok(PathExplanation { path: path.clone(), access: enforced.access(&resolved), resolved, rule, own: None, hard })
    }

    /// The rules that deny files to this session's commands, with links resolved.
    pub fn unreadable(&self) -> Result<Vec<FileRule>, stockade_protocol::Invalid> {
        let enforced = Enforced::of(&self.in_force().session)?;
        Ok(enforced.files().iter().filter(|rule| rule.access == Access::None).cloned().collect())
    }

    /// Evaluates the rules for a command.
    pub fn check_rules(&self, command: &stockade_protocol::Argv) -> CheckReport {
        crate::Verdict::of(&self.in_force().rules.policy(), command).report()
    }

    /// Explains the decision on a connection of this session's commands to a host.
    pub fn explain_host(&self, host: &Host, protocol: Option<NetworkProtocol>, port: u16) -> HostExplanation {
        let in_force = self.in_force();
        let session = &*in_force.session;
        let network = session.bounded(&session.permissions).network;
        let ctx = self.context(&in_force);
        let held = session.held_network(&network);
        let network = if held == network || ctx.sandbox.sees_connections() { held } else { network };
        let rules = Rules::new(network, named_rules(&in_force.rules, session));
        let protocol = protocol.unwrap_or_else(|| rules.protocol(host, port));
        let destination = Destination { host: host.clone(), protocol, port };
        let ruling = rules.decide(&destination, &LocalNetworks::now());
        // Beyond the maximum nothing is asked.
        if ruling.decision == Decision::Prompt && session.network_bound().forbids(&destination) {
            let rule = Some(String::from("the administrator's maximum"));
            return HostExplanation { destination, decision: Decision::Forbidden, rule };
        }
        HostExplanation { destination, decision: ruling.decision, rule: ruling.rule.map(|named| named.origin) }
    }
}

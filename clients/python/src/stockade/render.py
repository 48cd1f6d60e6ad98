"""Questions and denials as text. Everything in them that a command could have chosen is escaped."""

from __future__ import annotations

import json

from .text import safe, safe_line, shell_words
from .types import (
    AddFile,
    ApprovalRequest,
    CommandApproval,
    DeleteFile,
    Destination,
    ElicitationApproval,
    EscalationExecution,
    FileChange,
    FileRule,
    FileTargetPath,
    HostRule,
    NetworkApproval,
    NetworkPolicy,
    ParsedCommand,
    PatchApproval,
    PermissionAmendment,
    PermissionAmendmentUnixSocket,
    Permissions,
    PermissionsApproval,
    RawText,
    ReviewDecision,
    SaveCommandRule,
    SaveNetworkRule,
    SaveProfile,
    ToolCallApproval,
    UpdateFile,
    Violation,
    ViolationTargetCommand,
    ViolationTargetLimit,
    ViolationTargetPath,
    ViolationTargetProcess,
    ViolationTargetSystemCall,
    ViolationTargetUnixSocket,
    WriteApproval,
)

__all__ = ["amendment_text", "decision_text", "question_text", "question_title", "violation_line"]


def question_title(request: ApprovalRequest) -> str:
    """What is asked, on one line."""
    match request.subject:
        case CommandApproval(command=command, violations=[]):
            return f"May this command run? {shell_words(command)}"
        case CommandApproval(command=command):
            return f"The sandbox stopped this command. May it have more? {shell_words(command)}"
        case PatchApproval(changes=changes):
            return f"May these files be changed? {', '.join(_change_name(one) for one in changes)}"
        case NetworkApproval(host=host, port=port, protocol=protocol, leads_to=addresses) if addresses:
            leads = ", ".join(safe_line(one) for one in addresses)
            destination = f"{safe_line(host)}, port {port}, {protocol}"
            return f"May this address on a local network be reached? {leads}, for {destination}"
        case NetworkApproval(host=host, port=port, protocol=protocol):
            return f"May this destination be reached? {safe_line(host)}, port {port}, {protocol}"
        case WriteApproval(operation=operation, paths=paths):
            verb = {"write": "write", "replace": "remove or replace"}.get(operation, "create")
            return f"May the command {verb} {', '.join(safe_line(one) for one in paths)}?"
        case PermissionsApproval():
            return "May the session have more permissions?"
        case ToolCallApproval(server=server, tool=tool):
            return f"May this tool be called? {safe_line(tool)} of the server {safe_line(server)}"
        case ElicitationApproval(server=server):
            return f"Will you answer the server {safe_line(server)}?"


def question_text(request: ApprovalRequest) -> str:
    """The whole question. What a yes would grant stands last."""
    lines = [question_title(request)]
    subject = request.subject
    match subject:
        case CommandApproval():
            lines += _command(subject)
        case PatchApproval(changes=changes):
            for change in changes:
                lines += ["", *_change(change)]
        case NetworkApproval(program=program) if program is not None:
            lines.append(f"wanted by {safe_line(program)}")
        case WriteApproval(program=program) if program is not None:
            lines.append(f"wanted by {safe_line(program)}")
        case PermissionsApproval(justification=why) if why:
            lines.append(f"in the requester's words: {safe_line(why)}")
        case ToolCallApproval(arguments=arguments):
            lines += [f"  {safe_line(key)}: {safe_line(_json(value))}" for key, value in arguments.items()]
        case ElicitationApproval(message=message, requested_schema=schema):
            lines.append("  " + safe_line(message))
            lines += [f"  it wants: {safe_line(_json(schema))}"] if schema is not None else []
        case _:
            pass
    if request.reason:
        lines.append(f"why it is asked: {safe_line(request.reason)}")
    if request.risk is not None:
        lines.append(f"a program's guess: {request.risk.level} risk. {safe_line(request.risk.summary)}")
    for path in request.resolved_paths:
        lines.append(f"{safe_line(path.given)} really is {safe_line(path.resolved)}")
    match subject:
        case CommandApproval(escalation=escalation):
            lines += _escalation(escalation)
        case PermissionsApproval(permissions=permissions):
            lines += ["with a yes, the session may from now on:", *_permissions(permissions)]
        case WriteApproval(directories=directories) if directories:
            below = ", ".join(safe_line(one) for one in directories)
            lines.append(f"with a yes for the run or the session, everything in {below} may be written")
        case PatchApproval(grant_root=root) if root is not None:
            lines.append(f"with a yes for the session, everything below {safe_line(root)} may be written")
        case _:
            pass
    return "\n".join(lines)


def decision_text(decision: ReviewDecision) -> str:
    """An answer in words, for a button."""
    match decision:
        case SaveCommandRule(proposed_execpolicy_amendment=words):
            return f"yes, and always for: {shell_words(words)}"
        case SaveProfile(proposed_profile_amendment=profile):
            below = ", ".join(safe_line(one) for one in profile.write)
            where = ", ".join(safe_line(one) for one in profile.workspace)
            command, file = shell_words(profile.command), safe_line(profile.file)
            return f"yes, and always everything in {below}, for {command} in {where}: saves {file}"
        case SaveNetworkRule(network_policy_amendment=rule):
            port = "" if rule.port is None else f", port {rule.port}"
            verb = "yes, and always for" if rule.action == "allow" else "no, and never for"
            return f"{verb}: {safe_line(rule.host)}{port}"
        case str():
            words_of = {
                "approved": "yes, this once",
                "approved_for_run": "yes, until the command ends",
                "approved_for_session": "yes, and the same for the rest of this session",
                "denied": "no",
                "denied_for_run": "no, and to everything else that this run asks",
                "abort": "no, and stop the session",
                "timed_out": "no answer",
            }
            return words_of.get(decision, decision)
        case _:
            return f"no: {safe_line(decision.rejection)}"


def _command(command: CommandApproval) -> list[str]:
    lines = [f"in {safe_line(command.cwd)}"]
    if command.started_by:
        chain = " > ".join(shell_words(one) for one in (*command.started_by, command.command))
        lines.append(f"started by the running command, which waits: {chain}")
    parts = [one for one in command.parsed.commands if one.role != "wrapper"]
    if len(parts) > 1 or any(one.via for one in parts):
        lines += ["it runs:", *(f"  {_part(one)}" for one in parts)]
    if command.parsed.opaque:
        lines.append(f"it may run more: {safe_line(command.parsed.opaque)}")
    if command.justification:
        lines.append(f"in the requester's words: {safe_line(command.justification)}")
    if command.violations:
        lines += ["the sandbox denied it:", *(f"  {violation_line(one)}" for one in command.violations)]
    return lines


def _part(part: ParsedCommand) -> str:
    shown = shell_words(part.words)
    if part.writes:
        shown += f"  (writes {shell_words(part.writes)})"
    if part.reads:
        shown += f"  (reads {shell_words(part.reads)})"
    return shown


def violation_line(violation: Violation) -> str:
    """A denied act on one line, with the least permission that allows it."""
    match violation.target:
        case ViolationTargetPath(path):
            target = safe_line(path)
        case Destination(host=host, port=port):
            target = f"{safe_line(host)}, port {port}"
        case ViolationTargetUnixSocket(path):
            target = f"the socket {safe_line(path)}"
        case ViolationTargetSystemCall(name):
            target = f"the system call {safe_line(name)}"
        case ViolationTargetProcess(pid):
            target = f"process {pid}"
        case ViolationTargetLimit(limit):
            target = f"the limit {safe_line(limit)}"
        case ViolationTargetCommand(command):
            target = shell_words(command)
    by = "" if violation.program is None else f", by {safe_line(violation.program)}"
    guess = "perhaps " if violation.evidence == "guessed" else ""
    least = "" if violation.amendment is None else f" (the least that allows it: {amendment_text(violation.amendment)})"
    return f"{guess}{violation.operation.replace('_', ' ')}: {target}{by}{least}"


def amendment_text(amendment: PermissionAmendment) -> str:
    """A permission in a few words, such as `write /srv/out`."""
    match amendment:
        case FileRule():
            return _file_rule(amendment)
        case HostRule():
            return _host_rule(amendment)
        case PermissionAmendmentUnixSocket(path):
            return f"connect to the socket {safe_line(path)}"


def _escalation(escalation: EscalationExecution) -> list[str]:
    if isinstance(escalation, Permissions):
        return ["with a yes, it runs in the sandbox and may, on top of the session:", *_permissions(escalation)]
    if escalation == "unsandboxed":
        return ["with a yes, it runs WITHOUT the sandbox, as you"]
    return ["with a yes, it runs in the session's sandbox"]


def _permissions(permissions: Permissions) -> list[str]:
    lines = [f"  {_file_rule(rule)}" for rule in permissions.files or ()]
    lines += _network(permissions.network)
    sockets = [safe_line(path) for path in permissions.unix_sockets]
    lines += [f"  talk to the program behind the socket {path}, which is not sandboxed" for path in sockets]
    if permissions.limits is not None:
        limits = permissions.limits.to_json()
        lines += [f"  use up to {limit} {name.replace('_', ' ')}" for name, limit in limits.items()]
    if permissions.environment is not None:
        # Their values may be secrets.
        lines += [f"  see the variable {safe_line(name)}" for name in permissions.environment.set]
        names = permissions.environment.include_only
        lines += [f"  see inherited variables named {safe_line(name)}" for name in names]
    return lines or ["  nothing more"]


def _file_rule(rule: FileRule) -> str:
    target = rule.target.path if isinstance(rule.target, FileTargetPath) else rule.target.glob
    verb = {"none": "not touch", "scratch": "see an empty private directory in place of"}.get(rule.access, rule.access)
    return f"{verb} {'EVERYTHING, from / on' if target == '/' else safe_line(target)}"


def _network(network: NetworkPolicy | None) -> list[str]:
    if network is None or network == "off":
        return []
    if isinstance(network, str):
        return ["  use the whole network, without any limit"]
    only = ["  send only HTTP requests that read"] if network.methods == "read_only" else []
    return [*(f"  {_host_rule(rule)}" for rule in network.rules), *only]


def _host_rule(rule: HostRule) -> str:
    verb = {"allow": "connect to", "prompt": "ask to connect to", "forbidden": "not connect to"}[rule.decision]
    port = "" if rule.port is None else f", port {rule.port}"
    protocol = "" if rule.protocol is None else f", {rule.protocol}"
    return f"{verb} {safe_line(rule.host)}{port}{protocol}"


def _change_name(change: FileChange) -> str:
    match change:
        case AddFile(path=path):
            return f"add {safe_line(path)}"
        case DeleteFile(path=path):
            return f"delete {safe_line(path)}"
        case UpdateFile(path=path, move_path=None):
            return f"change {safe_line(path)}"
        case UpdateFile(path=path, move_path=target):
            return f"move {safe_line(path)} to {safe_line(target or '')}"


def _change(change: FileChange) -> list[str]:
    match change:
        case AddFile(content=content):
            body = _lines("+", content)
        case DeleteFile(content=content):
            body = _lines("-", content)
        case UpdateFile(unified_diff=diff):
            body = _lines("", diff)
    return [_change_name(change), *body]


def _lines(prefix: str, text: RawText) -> list[str]:
    shown = safe(text)
    return ["  " + prefix + line for line in shown.removesuffix("\n").split("\n")] if shown else []


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

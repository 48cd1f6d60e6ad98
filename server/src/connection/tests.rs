use std::sync::Mutex;

use serde_json::{Value, json};
use stockade_protocol::{ApprovalRequest, ApprovalSubject, ElicitationApproval, ReviewDecision};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;

use super::*;
use crate::peer::{ConnectionId, NoAnswer};
use crate::wire::{
    ApprovalRequestParams, CommandCancelParams, CommandCancelResult, CommandRunParams, CommandRunResult, Empty,
    ServerNotification, SessionListResult, SessionNotice, SessionParams,
};

/// Lists nothing, and detaches once it is let.
struct Waiting {
    let_go: Semaphore,
    gone: Mutex<Vec<Peer>>,
    cancelled: Mutex<Vec<String>>,
}

impl Methods for Waiting {
    fn disconnected(&self, peer: &Peer) {
        self.gone.lock().unwrap().push(peer.clone());
    }

    async fn session_list(&self, _: Caller, _: Empty) -> Result<SessionListResult, RpcError> {
        Ok(SessionListResult { sessions: Vec::new() })
    }

    async fn session_detach(&self, _: Caller, _: SessionParams) -> Result<Empty, RpcError> {
        self.let_go.acquire().await.unwrap().forget();
        Ok(Empty {})
    }

    async fn command_run(&self, _: Caller, _: CommandRunParams) -> Result<CommandRunResult, RpcError> {
        std::future::pending().await
    }

    async fn command_cancel(&self, _: Caller, params: CommandCancelParams) -> Result<CommandCancelResult, RpcError> {
        self.cancelled.lock().unwrap().push(params.command_id.to_string());
        tokio::task::yield_now().await;
        Ok(CommandCancelResult { was_running: false })
    }
}

struct Typist {
    methods: Arc<Waiting>,
    peer: Peer,
    to: WriteHalf<DuplexStream>,
    from: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    speaking: tokio::task::JoinHandle<()>,
}

impl Typist {
    fn new(transport: Transport) -> Self {
        Self::sharing(transport, RoomOfAll::default())
    }

    fn sharing(transport: Transport, room: RoomOfAll) -> Self {
        let methods =
            Arc::new(Waiting { let_go: Semaphore::new(0), gone: Mutex::default(), cancelled: Mutex::default() });
        let (ours, theirs) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(ours);
        let ends = Peer::new(ConnectionId(1), transport);
        let peer = ends.0.clone();
        let speaking = tokio::spawn(speak(
            Arc::clone(&methods),
            ends,
            room,
            Reader::Stream(Box::new(reader)),
            Writer::Stream(Box::new(writer)),
        ));
        let (from, to) = tokio::io::split(theirs);
        Self { methods, peer, to, from: BufReader::new(from).lines(), speaking }
    }

    async fn introduced(answers: bool) -> Self {
        Self::introduced_sharing(answers, RoomOfAll::default()).await
    }

    async fn introduced_sharing(answers: bool, room: RoomOfAll) -> Self {
        let mut typist = Self::sharing(Transport::Stdio, room);
        let params = json!({"protocol_version": 1, "client": {"name": "t"}, "capabilities": {"answers": answers}});
        let answer = typist.call(json!(0), "initialize", &params).await;
        assert_eq!(answer["result"]["server"]["name"], "stockade");
        assert_eq!(answer["result"]["limits"]["frame_bytes"], 4 << 20);
        typist
    }

    async fn send(&mut self, line: &str) {
        self.to.write_all(line.as_bytes()).await.unwrap();
        self.to.write_all(b"\n").await.unwrap();
    }

    async fn request(&mut self, id: Value, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    }

    async fn hear(&mut self) -> Option<Value> {
        let line = timeout(Duration::from_secs(20), self.from.next_line()).await.expect("no line came").ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn call(&mut self, id: Value, method: &str, params: &Value) -> Value {
        self.request(id, method, params).await;
        self.hear().await.unwrap()
    }
}

fn question() -> ApprovalRequestParams {
    let subject = ApprovalSubject::Elicitation(ElicitationApproval {
        server: "s".into(),
        message: "m".into(),
        requested_schema: None,
    });
    ApprovalRequestParams {
        session_id: "s".parse().unwrap(),
        question_id: "question-1".parse().unwrap(),
        command_id: None,
        request: ApprovalRequest::new("r1".parse().unwrap(), "s".parse().unwrap(), subject),
    }
}

#[tokio::test]
async fn initialize_comes_first_and_once() {
    let mut typist = Typist::new(Transport::Stdio);
    let early = typist.call(json!(1), "session/list", &json!({})).await;
    assert_eq!((&early["error"]["code"], &early["id"]), (&json!(-32000), &json!(1)));
    let params = json!({"protocol_version": 2, "client": {"name": "t"}});
    let other = typist.call(json!("a"), "initialize", &params).await;
    assert_eq!(other["error"]["code"], -32602);
    assert_eq!(other["error"]["data"], json!({"kind": "invalid_params", "supported": [1]}));
    let nameless = json!({"protocol_version": 1, "client": {"name": ""}});
    assert_eq!(typist.call(json!(2), "initialize", &nameless).await["error"]["code"], -32602);
    let params = json!({"protocol_version": 1, "client": {"name": "t"}});
    let first = typist.call(json!(3), "initialize", &params).await;
    assert!(first["result"]["methods"].as_array().unwrap().contains(&json!("shutdown")));
    assert_eq!(typist.call(json!(4), "initialize", &params).await["error"]["code"], -32600);
    assert_eq!(typist.call(json!(5), "session/list", &json!({})).await["result"], json!({"sessions": []}));
    let unknown = typist.call(json!(6), "session/lst", &json!({})).await;
    assert_eq!(unknown["error"]["data"]["kind"], "unknown_method");
    let typo = typist.call(json!(7), "session/list", &json!({"x": 1})).await;
    assert!(typo["error"]["message"].as_str().unwrap().contains("`params.x`"), "{typo}");
    typist.send(r#"{"jsonrpc":"2.0","id":8,"method":"session/list"}"#).await;
    assert_eq!(typist.hear().await.unwrap()["id"], 8);
}

#[tokio::test]
async fn bad_lines_are_answered_and_a_row_of_them_ends_the_connection() {
    let mut typist = Typist::introduced(false).await;
    let mut long = "x".repeat((4 << 20) + 1);
    long.push('\n');
    let (mut to, mut from) = (typist.to, typist.from);
    let sending = tokio::spawn(async move {
        to.write_all(long.as_bytes()).await.unwrap();
        to
    });
    let answer: Value = serde_json::from_str(&from.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null));
    to = sending.await.unwrap();
    (typist.to, typist.from) = (to, from);
    for _ in 0..62 {
        typist.send("{").await;
        assert_eq!(typist.hear().await.unwrap()["error"]["code"], -32700);
    }
    // A good one in between: the row begins anew.
    assert_eq!(typist.call(json!(1), "session/list", &json!({})).await["id"], 1);
    for _ in 0..64 {
        typist.send("[]").await;
        assert_eq!(typist.hear().await.unwrap()["error"]["code"], -32600);
    }
    assert_eq!(typist.hear().await, None);
    typist.speaking.await.unwrap();
    assert_eq!(typist.methods.gone.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn requests_are_bounded_and_an_id_is_used_once_at_a_time() {
    let mut typist = Typist::introduced(false).await;
    let detach = json!({"session_id": "s"});
    for id in 0..64 {
        typist.request(json!(id), "session/detach", &detach).await;
    }
    let busy = typist.call(json!("more"), "session/list", &json!({})).await;
    assert_eq!((&busy["id"], &busy["error"]["code"]), (&json!("more"), &json!(-32004)));
    let again = typist.call(json!(3), "session/list", &json!({})).await;
    assert_eq!((&again["id"], &again["error"]["code"]), (&Value::Null, &json!(-32600)));
    // A command may take as long as it likes and does not count.
    typist.request(json!("run"), "command/run", &json!({"session_id": "s", "command": ["x"]})).await;
    typist.methods.let_go.add_permits(1);
    assert_eq!(typist.hear().await.unwrap()["result"], json!({}));
    assert_eq!(typist.call(json!("more"), "session/list", &json!({})).await["result"]["sessions"], json!([]));
    typist.methods.let_go.add_permits(63);
    for _ in 0..63 {
        assert_eq!(typist.hear().await.unwrap()["result"], json!({}));
    }
}

/// A request that waits, of almost as many bytes as a line may have.
fn large(id: &str) -> String {
    let blanks = " ".repeat(4_190_000);
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"session/detach","params":{{"session_id":"s"{blanks}}}}}"#)
}

/// The bytes of requests in flight are bounded per connection and in total. Small requests still pass.
#[tokio::test]
async fn the_bytes_of_requests_under_way_are_bounded() {
    let room = RoomOfAll::default();
    let mut typists = Vec::new();
    for number in 0..8 {
        let mut typist = Typist::introduced_sharing(false, room.clone()).await;
        // 4 lines of 4,190,000 bytes are just below 16 MiB.
        for id in 0..4 {
            typist.send(&large(&id.to_string())).await;
        }
        if number == 0 {
            typist.send(&large("more")).await;
            let busy = typist.hear().await.unwrap();
            assert_eq!((&busy["id"], &busy["error"]["code"]), (&json!("more"), &json!(-32004)), "{busy}");
            assert!(busy["error"]["message"].as_str().unwrap().contains("this connection"), "{busy}");
        }
        assert_eq!(typist.call(json!("small"), "session/list", &json!({})).await["result"]["sessions"], json!([]));
        typists.push(typist);
    }
    let mut other = Typist::introduced_sharing(false, room).await;
    other.send(&large("a")).await;
    let busy = other.hear().await.unwrap();
    assert_eq!(busy["error"]["code"], -32004, "{busy}");
    assert!(busy["error"]["message"].as_str().unwrap().contains("all connections"), "{busy}");
    assert_eq!(other.call(json!("small"), "session/list", &json!({})).await["result"]["sessions"], json!([]));
    // A response makes room for all.
    typists[0].methods.let_go.add_permits(1);
    assert_eq!(typists[0].hear().await.unwrap()["result"], json!({}));
    other.send(&large("a")).await;
    other.methods.let_go.add_permits(1);
    assert_eq!(other.hear().await.unwrap()["result"], json!({}));
}

/// A command that was just started can be written to and cancelled without waiting for anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_about_commands_are_begun_in_their_order() {
    let mut typist = Typist::introduced(false).await;
    let wanted: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    for chunk in wanted.chunks(50) {
        for id in chunk {
            typist.request(json!(id), "command/cancel", &json!({"session_id": "s", "command_id": id})).await;
        }
        for _ in chunk {
            assert_eq!(typist.hear().await.unwrap()["result"]["was_running"], false);
        }
    }
    assert_eq!(*typist.methods.cancelled.lock().unwrap(), wanted);
}

#[tokio::test]
async fn what_is_under_way_at_the_end_is_still_answered() {
    let mut typist = Typist::introduced(false).await;
    typist.request(json!(1), "session/detach", &json!({"session_id": "s"})).await;
    typist.to.shutdown().await.unwrap();
    typist.peer.gone().await;
    typist.methods.let_go.add_permits(1);
    assert_eq!(typist.hear().await.unwrap()["id"], 1);
    assert_eq!(typist.hear().await, None);
}

#[tokio::test]
async fn a_question_is_answered_declined_or_lost() {
    let mut typist = Typist::introduced(true).await;
    assert!(typist.peer.capabilities().answers);
    let ask = |peer: Peer| tokio::spawn(async move { peer.ask(&question()).await?.answer().await });
    let asked = ask(typist.peer.clone());
    let heard = typist.hear().await.unwrap();
    assert_eq!((&heard["method"], &heard["params"]["request"]["id"]), (&json!("approval/request"), &json!("r1")));
    let answer = json!({"jsonrpc": "2.0", "id": heard["id"], "result": {"id": "r1", "decision": "approved"}});
    typist.send(&answer.to_string()).await;
    assert_eq!(asked.await.unwrap().unwrap().decision, ReviewDecision::Approved);
    // The same once more changes nothing.
    typist.send(&answer.to_string()).await;

    let asked = ask(typist.peer.clone());
    let id = typist.hear().await.unwrap()["id"].clone();
    typist.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"id": "r1", "decision": "maybe"}}).to_string()).await;
    assert!(matches!(asked.await.unwrap(), Err(NoAnswer::Unusable(why)) if why.contains("decision")));

    let asked = ask(typist.peer.clone());
    let id = typist.hear().await.unwrap()["id"].clone();
    typist.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}}).to_string()).await;
    assert_eq!(asked.await.unwrap(), Err(NoAnswer::Declined("no".into())));

    let asked = ask(typist.peer.clone());
    typist.hear().await.unwrap();
    drop((typist.to, typist.from));
    assert_eq!(asked.await.unwrap(), Err(NoAnswer::Gone));
}

/// A client that does not read fills only its own queue, and every wait for it ends with its connection.
#[tokio::test]
async fn a_client_that_floods_and_never_reads_is_held_back() {
    let mut typist = Typist::introduced(false).await;
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(2000)}).to_string() + "\n";
    let flood = async {
        for _ in 0..100_000 {
            typist.to.write_all(line.as_bytes()).await.unwrap();
        }
    };
    assert!(timeout(Duration::from_secs(3), flood).await.is_err(), "the flood was taken in whole");
    let notice = SessionNotice { session_id: "s".parse().unwrap(), text: "x".repeat(1 << 20) };
    let notice = ServerNotification::SessionNotice(notice);
    while typist.peer.send(&notice).is_ok() {}
    assert!(typist.peer.is_gone());
    timeout(Duration::from_secs(20), typist.speaking).await.expect("it hangs").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_on_a_socket_has_to_say_who_it_is() {
    let mut typist = Typist::new(Transport::Socket);
    let late: Value = serde_json::from_str(&typist.from.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(late["error"]["code"], -32000);
    assert_eq!(typist.from.next_line().await.unwrap(), None);
}

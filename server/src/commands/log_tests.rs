use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::timeout;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A command that prints `total` bytes on each stream, in pieces of this size.
fn print(log: &Arc<OutputLog>, stream: StreamName, total: usize, piece: usize) -> std::thread::JoinHandle<()> {
    let sink = log.sink(stream);
    let text = expected(stream, total);
    std::thread::spawn(move || {
        for piece in text.chunks(piece) {
            if sink.write(stream, piece).is_err() {
                break;
            }
        }
        sink.closed();
    })
}

/// Text in which every place differs from those around it, in characters of several bytes.
fn expected(stream: StreamName, total: usize) -> Vec<u8> {
    let mark = if stream == StreamName::Stdout { 'é' } else { '😀' };
    let mut text: String = (0..total / 6 + 1).map(|number| format!("{number}{mark}")).collect();
    text.truncate(text.floor_char_boundary(total));
    text.into_bytes()
}

/// The output that a reader has taken.
#[derive(Default)]
struct Seen {
    chunks: BTreeMap<u64, Chunk>,
    lost: Vec<u64>,
    last_seq: Option<u64>,
}

impl Seen {
    fn text(&self, stream: StreamName) -> Vec<u8> {
        self.chunks
            .values()
            .filter(|chunk| chunk.stream == stream)
            .flat_map(|chunk| chunk.data.as_bytes())
            .copied()
            .collect()
    }

    fn last(&self) -> u64 {
        self.chunks.keys().next_back().copied().unwrap_or(0)
    }
}

/// Reads until the end, or until this chunk has come or is lost.
async fn read(log: &Arc<OutputLog>, after: u64, until: u64) -> Seen {
    let (mut reader, mut seen, mut next_seq) = (log.read_after(after, UnderWay::UntilRead), Seen::default(), after + 1);
    while next_seq <= until {
        match timeout(PATIENCE, reader.next()).await.unwrap() {
            Next::Chunk(chunk) => {
                assert_eq!(chunk.seq, next_seq, "a gap");
                assert!(chunk.data.as_str().is_some(), "a character was torn: {:?}", chunk.data);
                assert!(chunk.data.as_bytes().len() <= CHUNK + 3);
                next_seq += 1;
                seen.chunks.insert(chunk.seq, chunk);
            }
            Next::Lost { first_seq } => {
                assert!(first_seq > next_seq);
                (next_seq, seen.lost) = (first_seq, [seen.lost, vec![first_seq]].concat());
            }
            Next::End { last_seq } => {
                seen.last_seq = Some(last_seq);
                break;
            }
        }
    }
    seen
}

async fn joined(thread: std::thread::JoinHandle<()>) {
    let joined = tokio::task::spawn_blocking(move || thread.join().unwrap());
    timeout(PATIENCE, joined).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stands_still_blocks_the_writer_and_nothing_is_lost() {
    let log = OutputLog::new(KeptOutput::unbounded());
    let reader = log.read_after(0, UnderWay::UntilRead);
    let total = 3 * usize::try_from(KEPT).unwrap();
    let writer = print(&log, StreamName::Stdout, total, 32 * 1024);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!writer.is_finished());
    assert!(log.state().written <= UNREAD, "{}", log.state().written);
    let whole = {
        let log = Arc::clone(&log);
        tokio::spawn(async move { read(&log, 0, u64::MAX).await })
    };
    // Until it is gone, the stalled reader blocks the other as well.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!writer.is_finished());
    drop(reader);
    joined(writer).await;
    let last_seq = log.end();
    let seen = whole.await.unwrap();
    assert_eq!((seen.last_seq, seen.lost.len()), (Some(last_seq), 0));
    assert!(seen.text(StreamName::Stdout) == expected(StreamName::Stdout, total));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_told_to_end_waits_for_no_reader() {
    for end in [OutputLog::release, |log: &OutputLog| _ = log.end()] {
        let log = OutputLog::new(KeptOutput::unbounded());
        let _stands_still = log.read_after(0, UnderWay::UntilRead);
        let writer = print(&log, StreamName::Stdout, 3 * usize::try_from(KEPT).unwrap(), 1000);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!writer.is_finished());
        end(&log);
        joined(writer).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_counts_as_under_way_until_it_is_acknowledged() {
    for piece in [32 * 1024, 100, 1] {
        let log = OutputLog::new(KeptOutput::unbounded());
        let mut reader = log.read_after(0, UnderWay::UntilAcknowledged);
        let acknowledger = reader.acknowledger();
        let total = expected(StreamName::Stdout, if piece == 1 { 300_000 } else { 2_000_000 }).len();
        let writer = print(&log, StreamName::Stdout, total, piece);
        let (mut bytes, mut last) = (0, 0);
        while bytes < total as u64 {
            match timeout(Duration::from_millis(300), reader.next()).await {
                Ok(Next::Chunk(chunk)) => (bytes, last) = (bytes + chunk.data.as_bytes().len() as u64, chunk.seq),
                Ok(other) => panic!("{other:?}"),
                Err(_) => {
                    assert!(log.state().bytes <= bytes + 3 && !writer.is_finished());
                    acknowledger.acknowledge(last + 1000);
                    assert!(log.state().must_wait(), "a chunk that was not sent can't be used");
                    acknowledger.acknowledge(last);
                }
            }
            let used = log.state().readers.values().next().unwrap().acknowledged.unwrap();
            assert!(bytes - used <= UNUSED);
        }
        joined(writer).await;
    }
}

#[tokio::test]
async fn what_is_gone_is_said_once_and_the_rest_is_whole() {
    let log = OutputLog::new(KeptOutput::unbounded());
    let total = 3 * usize::try_from(KEPT).unwrap();
    joined(print(&log, StreamName::Stdout, total, 1000)).await;
    log.end();
    let extent = log.extent();
    let seen = read(&log, 0, u64::MAX).await;
    assert_eq!((seen.lost, seen.last_seq), (vec![extent.first_seq], Some(extent.last_seq)));
    let text = seen.chunks.values().flat_map(|chunk| chunk.data.as_bytes()).copied().collect::<Vec<_>>();
    assert!(text.len() as u64 > KEPT - KEPT / 16 && expected(StreamName::Stdout, total).ends_with(&text));
    let after = read(&log, extent.last_seq - 1, u64::MAX).await;
    assert_eq!(after.chunks.len(), 1);
    // A number that no chunk has yet is taken for the end.
    assert_eq!(read(&log, u64::MAX - 1, u64::MAX).await.last_seq, Some(extent.last_seq));
}

#[tokio::test]
async fn single_bytes_on_both_streams_cost_no_more_memory_than_long_lines() {
    let log = OutputLog::new(KeptOutput::unbounded());
    let (out, err) = (log.sink(StreamName::Stdout), log.sink(StreamName::Stderr));
    for _ in 0..100_000 {
        out.write(StreamName::Stdout, b"o").unwrap();
        err.write(StreamName::Stderr, b"e").unwrap();
    }
    assert!((log.state().chunks.len() as u64) * CHUNK_COST <= KEPT);
    // Untaken output of one stream becomes one chunk.
    let log = OutputLog::new(KeptOutput::unbounded());
    let out = log.sink(StreamName::Stdout);
    (0..1000).for_each(|_| out.write(StreamName::Stdout, b"o").unwrap());
    assert_eq!(log.extent(), Extent { first_seq: 1, last_seq: 1 });
    let first = log.read_after(0, UnderWay::UntilRead).next().await;
    out.write(StreamName::Stdout, b"o").unwrap();
    assert_eq!(log.extent().last_seq, 2);
    assert_eq!(log.read_after(0, UnderWay::UntilRead).next().await, first);
}

#[tokio::test]
async fn after_the_end_nothing_is_taken() {
    let log = OutputLog::new(KeptOutput::unbounded());
    let sink = log.sink(StreamName::Stderr);
    sink.write(StreamName::Stderr, "€".as_bytes().get(..2).unwrap()).unwrap();
    assert_eq!(log.end(), 1, "what was kept back comes at the end");
    assert_eq!(sink.write(StreamName::Stderr, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    sink.closed();
    assert_eq!(log.end(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every reader gets exact parts of the output, equal numbers mean equal chunks, a client that resumes where it
    /// stopped gets all of it, and nothing blocks for ever.
    #[test]
    fn every_reader_has_exact_parts_of_the_output(
        sizes in prop::array::uniform2(0usize..1_500_000),
        pieces in prop::array::uniform2(100usize..40_000),
        visits in prop::collection::vec(1u64..40, 0..12),
        stills in 0usize..3,
        told_to_end in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let log = OutputLog::new(KeptOutput::unbounded());
            let steady = { let log = Arc::clone(&log); tokio::spawn(async move { read(&log, 0, u64::MAX).await }) };
            while log.state().readers.is_empty() { tokio::task::yield_now().await; }
            let writers = [StreamName::Stdout, StreamName::Stderr].into_iter().zip(sizes).zip(pieces)
                .map(|((stream, size), piece)| print(&log, stream, size, piece)).collect::<Vec<_>>();
            // One comes back again and again where it stopped; others come and never read.
            let (mut at, mut returning) = (0, Seen::default());
            for (round, most) in visits.into_iter().enumerate() {
                let still = (round < stills).then(|| log.read_after(0, UnderWay::UntilRead));
                let there = log.extent().last_seq;
                let seen = read(&log, at, there.min(at + most)).await;
                at = seen.last().max(at);
                returning.lost.extend(seen.lost);
                returning.chunks.extend(seen.chunks);
                drop(still);
            }
            if told_to_end { log.release(); }
            for writer in writers { joined(writer).await; }
            let last_seq = log.end();
            let seen = read(&log, at, u64::MAX).await;
            returning.lost.extend(seen.lost);
            returning.chunks.extend(seen.chunks);
            let steady = steady.await.unwrap();
            assert_eq!(steady.last_seq, Some(last_seq));
            for (stream, size) in [StreamName::Stdout, StreamName::Stderr].into_iter().zip(sizes) {
                if steady.lost.is_empty() {
                    assert!(steady.text(stream) == expected(stream, size));
                }
            }
            assert!(told_to_end || steady.lost.is_empty());
            for (seq, chunk) in &returning.chunks {
                assert!(steady.chunks.get(seq).is_none_or(|same| same == chunk));
            }
            assert!(!returning.lost.is_empty() || returning.chunks.len() as u64 == last_seq);
        });
    }
}

/// On a full server a running command keeps the output that its readers may need, and they miss nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_keeps_only_what_readers_wait_for() {
    let kept = KeptOutput::new(300_000);
    let total = 4 << 20;
    let [first, second] = [(); 2].map(|()| OutputLog::new(Arc::clone(&kept)));
    let printing = print(&first, StreamName::Stdout, total, 5_000);
    printing.join().unwrap();
    first.end();
    assert!(kept.bytes() <= 300_000 + UNREAD && first.kept_bytes() >= 100_000, "{}", kept.bytes());
    let reading = tokio::spawn({
        let second = Arc::clone(&second);
        async move { read(&second, 0, u64::MAX).await }
    });
    while second.state().readers.is_empty() {
        tokio::task::yield_now().await;
    }
    let printing = print(&second, StreamName::Stdout, total, 5_000);
    tokio::task::spawn_blocking(move || printing.join().unwrap()).await.unwrap();
    second.end();
    let seen = reading.await.unwrap();
    assert!(seen.lost.is_empty() && seen.text(StreamName::Stdout) == expected(StreamName::Stdout, total));
    assert!(kept.bytes() <= 300_000 + 2 * UNREAD, "{}", kept.bytes());
    drop((first, second));
    assert_eq!(kept.bytes(), 0);
}

//! Both sides of `bench::net` in one process over loopback, and peers that don't keep to the rules.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use bench::net::{
    HostPort, ListenAddress, NetBenchmark, NetError, NetSettings, NetTest, Secret, ServeLimits, ServerEvent,
    run_net, serve,
};
use bench::{Bytes, Origin};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

fn secret(text: &str) -> Secret {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    Secret::read(&path).unwrap()
}

const SECRET: &str = "a secret of the tests";

/// Runs `test` beside a server, which ends afterwards.
fn with_server(limits: ServeLimits, test: impl FnOnce(SocketAddr, &Receiver<ServerEvent>)) {
    let (sender, events) = channel();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let listen = ListenAddress("127.0.0.1:0".parse().unwrap());
        let (secret, stop_server, limits) = (secret(SECRET), &stop, &limits);
        let server = scope.spawn(move || {
            let event = move |event| sender.send(event).unwrap_or(());
            serve(listen, &secret, limits, "the test", stop_server, &event)
        });
        let Ok(ServerEvent::Listening { address }) = events.recv() else { panic!("it does not listen") };
        // A panic of the test has to end the server too.
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(address, &events)));
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap();
        tested.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn settings(tests: &[NetTest]) -> NetSettings {
    NetSettings {
        tests: tests.to_vec(),
        bytes: vec![Bytes(64), Bytes(8192)],
        instances: vec![1, 3],
        rounds: 2,
        seconds: 0.05,
        warm_up_seconds: 0.02,
        ..NetSettings::default()
    }
}

fn measure(address: SocketAddr, secret: &Secret, settings: NetSettings) -> Result<NetBenchmark, NetError> {
    let origin =
        Origin { made_by: "the test".to_owned(), command: Vec::new(), date: "2026-11-27".to_owned() };
    let host = HostPort { host: address.ip().to_string(), port: address.port() };
    run_net(&host, secret, settings, origin, &AtomicBool::new(false), &mut |_, _| ())
}

#[test]
fn all_tests_are_measured_over_loopback() {
    with_server(ServeLimits::default(), |address, _| {
        let found = measure(address, &secret(SECRET), settings(&NetTest::ALL)).unwrap();
        assert_eq!((found.is_same_kernel, found.cells.len()), (Some(true), 12));
        assert!(found.client.path.is_local && found.server.path.is_local);
        for cell in &found.cells {
            let name = cell.name();
            assert_eq!(cell.rounds.len(), 2, "{name}");
            assert!(cell.transactions_per_second.unwrap().median > 0.0, "{name}: {cell:?}");
            // On a busy host a round can end without a transaction to divide by.
            if cell.rounds.iter().all(|round| round.transactions > 0) {
                assert!(cell.cpu.client.process_ns.unwrap().median > 0.0, "{name}");
            }
            assert_eq!(cell.round_trip.is_some(), cell.test.has_answers(), "{name}");
            if let Some(round_trip) = &cell.round_trip {
                let counted: u64 = cell.rounds.iter().map(|round| round.transactions).sum();
                assert_eq!(round_trip.samples, counted, "{name}");
            }
        }
        let warnings = found.head.warnings.join("\n");
        for words in ["both sides run on one kernel", "client and server: loopback"] {
            assert!(warnings.contains(words), "{words}: {warnings}");
        }
        assert!(serde_json::to_string(&found).is_ok());
    });
}

#[test]
fn a_wrong_secret_gets_no_session() {
    with_server(ServeLimits::default(), |address, events| {
        let refused = measure(address, &secret("another secret of the tests"), settings(&[NetTest::UdpRr]));
        assert!(matches!(refused, Err(NetError::Handshake { .. })), "{refused:?}");
        let event = events.recv().unwrap();
        assert!(matches!(event, ServerEvent::Refused { error: Some(_), .. }), "{event:?}");
        // It serves those who know it all the same.
        measure(address, &secret(SECRET), settings(&[NetTest::UdpRr])).unwrap();
    });
}

#[test]
fn what_a_server_does_not_allow_is_refused_with_the_reason() {
    let limits = ServeLimits { seconds_max: 0.06, instances_max: 2, is_once: false };
    with_server(limits, |address, _| {
        let ask = |settings| measure(address, &secret(SECRET), settings).unwrap_err().to_string();
        let small = NetSettings { seconds: 0.03, ..settings(&[NetTest::TcpRr]) };
        assert!(ask(settings(&[NetTest::TcpRr])).contains("or a server with a larger --seconds-max"));
        assert!(
            ask(small.clone()).ends_with("3 instances; the server allows 2 (--instances-max)"),
            "{}",
            ask(small.clone())
        );
        let large = NetSettings { bytes: vec![Bytes(65_508)], ..small.clone() };
        let udp = NetSettings { tests: vec![NetTest::UdpRr], ..large };
        assert!(ask(udp).contains("udp-rr with messages of 65508 bytes; expected 16 to 65507"));
    });
}

/// The name and the nonce, which each connection gets.
const GREETING_BYTES: usize = 48;
const OPENING_BYTES: usize = 83;

#[test]
fn strangers_get_a_greeting_and_nothing_else() {
    with_server(ServeLimits::default(), |address, events| {
        for garbage in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; OPENING_BYTES], &[1; OPENING_BYTES], &[0xff; 100_000]]
        {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may already be closed.
            let _ = stream.write_all(garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let ended = stream.read_to_end(&mut answer);
            // Bytes that nobody read turn the end into a reset.
            assert!(ended.is_ok() || ended.unwrap_err().kind() == ErrorKind::ConnectionReset);
            assert!(answer.len() <= GREETING_BYTES, "{} bytes", answer.len());
            assert!(matches!(events.recv().unwrap(), ServerEvent::Refused { error: Some(_), .. }));
        }
        measure(address, &secret(SECRET), settings(&[NetTest::TcpRr])).unwrap();
    });
}

#[test]
fn one_who_says_nothing_is_closed_after_seconds() {
    with_server(ServeLimits::default(), |address, events| {
        let mut silent = TcpStream::connect(address).unwrap();
        // Others are served in the meantime.
        measure(address, &secret(SECRET), settings(&[NetTest::UdpRr])).unwrap();
        let mut answer = Vec::new();
        silent.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.len(), GREETING_BYTES);
        assert!(events.iter().any(|event| matches!(event, ServerEvent::Refused { error: Some(_), .. })));
    });
}

/// Passes bytes on in both directions, and keeps those of the client.
fn relay(to: SocketAddr, from: TcpStream) -> Vec<u8> {
    let server = TcpStream::connect(to).unwrap();
    let (mut back_from, mut back_to) = (server.try_clone().unwrap(), from.try_clone().unwrap());
    let back = thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(std::net::Shutdown::Both);
    });
    let mut kept = Vec::new();
    let (mut from, mut server) = (from, server);
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        kept.extend(&buffer[..bytes]);
        if server.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
    back.join().unwrap();
    kept
}

#[test]
fn what_a_client_sent_is_worth_nothing_in_another_connection() {
    with_server(ServeLimits::default(), |address, events| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let through = listener.local_addr().unwrap();
        let relayed = thread::spawn(move || relay(address, listener.accept().unwrap().0));
        // One connection: that of control.
        measure(through, &secret(SECRET), settings(&[NetTest::UdpRr])).unwrap();
        let sent = relayed.join().unwrap();
        assert!(sent.len() > OPENING_BYTES);
        while !matches!(events.recv().unwrap(), ServerEvent::Ended { error: None, .. }) {}
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&sent);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() <= GREETING_BYTES, "{} bytes", answer.len());
        assert!(matches!(events.recv().unwrap(), ServerEvent::Refused { error: Some(_), .. }));
    });
}

#[test]
fn a_second_client_is_told_that_it_has_to_wait() {
    with_server(ServeLimits::default(), |address, events| {
        thread::scope(|scope| {
            let long = NetSettings {
                seconds: 1.0,
                rounds: 1,
                instances: vec![1],
                ..settings(&[NetTest::TcpStream])
            };
            let first = scope.spawn(move || measure(address, &secret(SECRET), long));
            while !matches!(events.recv().unwrap(), ServerEvent::Test { .. }) {}
            let second = measure(address, &secret(SECRET), settings(&[NetTest::UdpRr])).unwrap_err();
            assert!(second.to_string().contains("another client is being served"), "{second}");
            first.join().unwrap().unwrap();
        });
    });
}

#[test]
fn clients_whose_sessions_take_no_time_take_turns() {
    let limits = ServeLimits { seconds_max: 0.06, ..ServeLimits::default() };
    with_server(limits, |address, _| {
        let clients = || {
            for client in 0..20 {
                // Its session ends when it has learnt the limit.
                let error = measure(address, &secret(SECRET), settings(&[NetTest::UdpRr])).unwrap_err();
                assert!(matches!(error, NetError::Seconds { .. }), "{client}: {error}");
            }
        };
        thread::scope(|scope| {
            scope.spawn(clients);
            scope.spawn(clients);
        });
    });
}

#[test]
fn a_client_that_is_stopped_leaves_the_server_free() {
    with_server(ServeLimits::default(), |address, events| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let client = scope.spawn(|| {
                let origin = Origin { made_by: String::new(), command: Vec::new(), date: String::new() };
                let host = HostPort { host: address.ip().to_string(), port: address.port() };
                let long = NetSettings { seconds: 50.0, ..settings(&[NetTest::TcpRr]) };
                run_net(&host, &secret(SECRET), long, origin, &stop, &mut |_, _| ())
            });
            while !matches!(events.recv().unwrap(), ServerEvent::Test { .. }) {}
            stop.store(true, Ordering::Relaxed);
            assert!(matches!(client.join().unwrap(), Err(NetError::Stopped)));
        });
        while !matches!(events.recv().unwrap(), ServerEvent::Ended { .. }) {}
        measure(address, &secret(SECRET), settings(&[NetTest::TcpRr])).unwrap();
    });
}

#[test]
fn a_server_that_is_stopped_ends_the_client() {
    let (sender, events) = channel();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (stop, listen) = (&stop, ListenAddress("127.0.0.1:0".parse().unwrap()));
        let server = scope.spawn(move || {
            let event = move |event| sender.send(event).unwrap_or(());
            serve(listen, &secret(SECRET), &ServeLimits::default(), "the test", stop, &event)
        });
        let Ok(ServerEvent::Listening { address }) = events.recv() else { panic!("it does not listen") };
        let long = NetSettings { seconds: 50.0, ..settings(&[NetTest::TcpRr]) };
        let client = scope.spawn(move || measure(address, &secret(SECRET), long));
        while !matches!(events.recv().unwrap(), ServerEvent::Test { .. }) {}
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap();
        let ended = client.join().unwrap().unwrap_err();
        assert!(matches!(ended, NetError::Socket { .. } | NetError::Session { .. }), "{ended:?}");
    });
}

/// The server's sockets are connected to the client's: others get no answer, whatever they send.
#[test]
fn datagrams_of_others_get_no_answer() {
    with_server(ServeLimits::default(), |address, events| {
        thread::scope(|scope| {
            let long = NetSettings {
                seconds: 1.0,
                rounds: 1,
                instances: vec![1],
                bytes: vec![Bytes(64)],
                ..settings(&[NetTest::UdpRr])
            };
            let client = scope.spawn(move || measure(address, &secret(SECRET), long));
            while !matches!(events.recv().unwrap(), ServerEvent::Test { .. }) {}
            let table = fs::read_to_string("/proc/net/udp").unwrap();
            let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
            stranger.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut sent = 0;
            for line in table.lines().skip(1) {
                let local = line.split_ascii_whitespace().nth(1).unwrap();
                let (ip, port) = local.split_once(':').unwrap();
                if ip == "0100007F" {
                    let port = u16::from_str_radix(port, 16).unwrap();
                    sent += usize::from(stranger.send_to(&[0; 64], ("127.0.0.1", port)).is_ok());
                }
            }
            assert!(sent >= 2, "{table}");
            // Nothing, or that nobody takes it.
            stranger.recv(&mut [0; 100]).unwrap_err();
            client.join().unwrap().unwrap();
        });
    });
}

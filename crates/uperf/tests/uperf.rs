//! Profiles of uperf: what is read of them, and what is refused where.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::Span;
use proptest::prelude::*;
use uperf::{Operation, Problem, Profile, Protocol, Repeat, Setting, Size, Strands, Variables};

const UDP_RR: &str = include_str!("../../../experiments/uperf/udp-rr.xml");
const TCP_STREAM: &str = include_str!("../../../experiments/uperf/tcp-stream.xml");

fn variables() -> Variables {
    Variables::from_iter([("h", "192.0.2.1"), ("size", "64"), ("n", "8"), ("empty", "")])
}

fn read(text: &str) -> Profile {
    Profile::read(text, "x.xml", &variables()).unwrap()
}

fn refused(text: &str) -> String {
    Profile::read(text, "x.xml", &variables()).unwrap_err().to_string()
}

/// A profile of one flowop.
fn flowop(attributes: &str) -> String {
    format!(
        "<profile name='p'><group nthreads='1'><transaction>\n<flowop {attributes}/></transaction></group></profile>"
    )
}

#[test]
fn requests_and_answers() {
    let profile = read(UDP_RR);
    assert_eq!(profile.name, "udp-rr");
    let [group] = &profile.groups[..] else { panic!("{profile:?}") };
    assert_eq!(group.strands, Strands::Threads(8));
    let [connect, exchange, disconnect] = &group.transactions[..] else { panic!("{group:?}") };
    assert_eq!(connect.repeat, Repeat::Times(1));
    assert_eq!(connect.flowops[0].protocol, Some(Protocol::Udp));
    assert_eq!(connect.flowops[0].remote_host.as_deref(), Some("192.0.2.1"));
    assert_eq!(exchange.repeat, Repeat::For { span: Span::from_ms(30_000), rate_per_second: None });
    let steps: Vec<_> = exchange.flowops.iter().map(|step| (step.operation, step.size, step.count)).collect();
    let size = Some(Size::Bytes(64));
    assert_eq!(steps, [(Operation::Write, size, 1), (Operation::Read, size, 1)]);
    assert_eq!(disconnect.flowops[0].operation, Operation::Disconnect);
}

#[test]
fn streams() {
    let profile = read(TCP_STREAM);
    assert_eq!(profile.groups[0].strands, Strands::Threads(8));
    assert_eq!(profile.groups[0].transactions[1].flowops.len(), 1);
}

#[test]
fn all_options_of_a_flowop() {
    let options = "conn=2 remotehost=$H localhost=a port=20000 PROTOCOL=TCP size=rand(1,8k) rsize=4k count=10 repeat=3
        batch_size=4 wndsz=50k duration=5ms timeout=1s tcp_nodelay non_blocking busy canfail cc=cubic sctp_nodelay";
    let profile = read(&flowop(&format!("type='Write' options='{options}'")));
    let step = &profile.groups[0].transactions[0].flowops[0];
    assert_eq!((step.connection, step.port, step.protocol), (Some(2), Some(20_000), Some(Protocol::Tcp)));
    assert_eq!(step.remote_host.as_deref(), Some("192.0.2.1"), "variables are looked up in lower case");
    assert_eq!(step.local_host.as_deref(), Some("a"));
    assert_eq!(step.size, Some(Size::Random { bytes_min: 1, bytes_max: 8192 }));
    assert_eq!((step.other_size_bytes, step.window_bytes), (Some(4096), Some(51_200)));
    assert_eq!((step.count, step.repeat, step.batch_size), (10, 3, 4));
    assert_eq!((step.duration, step.timeout), (Some(Span::from_ms(5)), Some(Span::from_ms(1000))));
    assert!(step.is_nodelay && step.is_nonblocking && step.is_busy && step.may_fail);
    let setting =
        |name: &str, value: Option<&str>| Setting { name: name.into(), value: value.map(Into::into) };
    assert_eq!(step.settings, [setting("cc", Some("cubic")), setting("sctp_nodelay", None)]);
}

#[test]
fn a_group_of_processes_at_a_rate() {
    let text = "<profile name='p'><group name='g' nprocs='2'><!-- c --><transaction duration='1s' rate='1k'>
        <flowop type='nop'></flowop></transaction><transaction iterations='0'><flowop type='think'/></transaction>
        </group></profile>";
    let profile = read(text);
    let group = &profile.groups[0];
    assert_eq!((group.name.as_deref(), group.strands), (Some("g"), Strands::Processes(2)));
    let rate_per_second = Some(1024);
    assert_eq!(group.transactions[0].repeat, Repeat::For { span: Span::from_ms(1000), rate_per_second });
    assert_eq!(group.transactions[1].repeat, Repeat::Times(0));
}

#[test]
fn flowops_are_refused_with_their_place() {
    let check = |attributes: &str, told: &str| {
        let error = refused(&flowop(attributes));
        assert!(error.starts_with("x.xml:2:") && error.contains(told), "{error}");
    };
    check("type='sendto'", "x.xml:2:15: type is sendto; expected connect, accept,");
    check("", "x.xml:2:1: <flowop> without type=");
    check("type='nop' option=''", "x.xml:2:20: <flowop> with option=; expected type= and options=");
    let check = |options: &str, told: &str| check(&format!("type='write' options='{options}'"), told);
    check("size=$msg", "x.xml:2:31: $msg is not set");
    check("size=$empty", "$empty is not set");
    check("size=0", "size is 0; expected bytes from 1 to");
    check("size=4g", "size is 4g");
    check("size=rand(1, 8k)", "size is rand(1,; expected");
    check("size=", "size is empty; expected name=value");
    check("size", "size is no option");
    check("count=1 async", "async is no option of a flowop");
    check("subtype=rdma", "subtype is no option");
    check("tcp_nodelay=1", "tcp_nodelay is no option");
    check("protocol=udapl", "protocol is udapl; expected tcp,");
    check("port=65536", "port is 65536; expected a port from 0 to 65535");
    check("conn=0", "conn is 0; expected a number from 1");
    check("count=-1", "count is -1");
    check("duration=5m", "duration is 5m; expected a time");
    check("wndsz=x", "wndsz is x");
}

#[test]
fn elements_are_refused_with_their_place() {
    let check = |text: &str, told: &str| assert_eq!(refused(text), told);
    let group = |inner: &str| format!("<profile name='p'>\n{inner}</profile>");
    check("<profil name='p'/>", "x.xml:1:1: <profil>; expected <profile>");
    check("<profile name='p'/>", "x.xml:1:1: <profile> without <group>");
    check("<profile><group/></profile>", "x.xml:1:1: <profile> without name=");
    check(&group("text"), "x.xml:1:19: text; expected <group>");
    check(&group("<transaction/>"), "x.xml:2:1: <transaction>; expected <group>");
    check(&group("<group/>"), "x.xml:2:1: <group> without nthreads= or nprocs=");
    check(&group("<group nthreads='1' nprocs='1'/>"), "x.xml:2:21: nthreads= and nprocs= exclude each other");
    check(&group("<group nthreads='1'/>"), "x.xml:2:1: <group> without <transaction>");
    let transaction =
        |attributes: &str| group(&format!("<group nthreads='1'><transaction {attributes}/></group>"));
    check(&transaction(""), "x.xml:2:21: <transaction> without <flowop>");
    check(
        &transaction("iterations='1' duration='1s'"),
        "x.xml:2:49: iterations= and duration= exclude each other",
    );
    check(
        &transaction("rate='5'"),
        "x.xml:2:34: rate= without duration=: uperf keeps a rate for a duration only",
    );
    assert!(
        refused(&group("<group nthreads='0'/>")).contains("x.xml:2:18: nthreads is 0; expected a number")
    );
    assert!(refused(&flowop("type='nop'>text</flowop><flowop type='nop'")).contains("expected </flowop>"));
}

#[test]
fn hostile_files_are_refused() {
    let problem = |text: &str| Profile::read(text, "x.xml", &variables()).unwrap_err().problem;
    let is_xml = |text: &str| assert!(matches!(problem(text), Problem::Xml(_)), "{:.80}", text);
    is_xml("");
    is_xml("<!DOCTYPE p [<!ENTITY a 'aa'><!ENTITY b '&a;&a;'>]><profile name='&b;'/>");
    is_xml("<!DOCTYPE p SYSTEM 'file:///etc/passwd'><profile name='p'/>");
    is_xml("<profile name='&b;'/>");
    is_xml("<profile name='p' name='q'/>");
    is_xml(&"<a>".repeat(20_000));
    let deep = format!("{}{}", "<a>".repeat(9_000), "</a>".repeat(9_000));
    assert!(matches!(problem(&deep), Problem::Content { .. }));
    assert!(matches!(problem(&" ".repeat(1 << 20)), Problem::Length { .. }));
    let wide: String = (0..5_000).map(|n| format!(" a{n}=''")).collect();
    assert!(matches!(problem(&format!("<profile{wide}/>")), Problem::Attribute { .. }));
    let namespaces: String = (0..3_000).map(|n| format!("<a xmlns:b{n}='c'>")).collect();
    assert!(refused(&format!("<!-- -->\n{namespaces}")).starts_with("x.xml:2:4: xmlns; expected elements"));
    let many = "<flowop type='nop'/>".repeat(3_000);
    let text =
        format!("<profile name='p'><group nthreads='1'><transaction>{many}</transaction></group></profile>");
    assert_eq!(read(&text).groups[0].transactions[0].flowops.len(), 3_000);
}

#[test]
fn a_truncated_file_is_an_error_with_its_place() {
    let text = UDP_RR.trim_end();
    for (end, _) in text.char_indices() {
        let error = Profile::read(&text[..end], "x.xml", &variables()).unwrap_err();
        assert!(matches!(error.problem, Problem::Xml(_)), "{end}: {error}");
    }
    assert!(refused(&UDP_RR[..UDP_RR.find("</group>").unwrap()]).starts_with("x.xml:15:3: "));
}

proptest! {
    #[test]
    fn numbers_read_as_they_are_written(
        threads in 1..=i32::MAX as u32,
        times in 0..=i32::MAX as u32,
        bytes in 1..=i32::MAX as u32,
        more in 0..1000u32,
        us in 1..1_000_000_000u64,
    ) {
        let bytes_max = bytes.saturating_add(more).min(i32::MAX as u32);
        let text = format!(
            "<profile name='p'><group nthreads='{threads}'>
            <transaction iterations='{times}'><flowop type='write' options='size={bytes}'/></transaction>
            <transaction duration='{us}us'><flowop type='read' options='size=rand({bytes},{bytes_max})'/></transaction>
            </group></profile>"
        );
        let group = &read(&text).groups[0];
        prop_assert_eq!(group.strands, Strands::Threads(threads));
        prop_assert_eq!(group.transactions[0].repeat, Repeat::Times(times));
        prop_assert_eq!(group.transactions[0].flowops[0].size, Some(Size::Bytes(bytes)));
        let span = Span::from_us(us);
        prop_assert_eq!(group.transactions[1].repeat, Repeat::For { span, rate_per_second: None });
        let random = Size::Random { bytes_min: bytes, bytes_max };
        prop_assert_eq!(group.transactions[1].flowops[0].size, Some(random));
    }

    #[test]
    fn whatever_an_option_says_is_read_or_refused(name in "[a-z_$=]{0,12}", value in "[0-9a-z.,()$=]{0,12}") {
        let text = flowop(&format!("type='write' options='{name}={value}'"));
        if let Err(error) = Profile::read(&text, "x.xml", &variables()) {
            prop_assert_eq!(error.line, 2);
        }
    }

    #[test]
    fn any_file_is_read_or_refused(at in 0..UDP_RR.len(), insert in any::<String>()) {
        let text = format!("{}{insert}{}", &UDP_RR[..at], &UDP_RR[at..]);
        if let Err(error) = Profile::read(&text, "x.xml", &variables()) {
            prop_assert!(error.line as usize <= text.lines().count() + 1);
        }
    }
}

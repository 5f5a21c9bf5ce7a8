//! A server that requires a password or a certificate, or whose disk is full. Each error has advice, and the advice works.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rejoin_store::{Location, Store, StoreError, StoreResult};
use support::{Talk, WRITE, hashes, read, tail};
use testkit::postgres::{free_port, own};

fn open(address: &str) -> StoreResult<Box<dyn Store>> {
    rejoin_store::open(&address.parse().unwrap(), WRITE)
}

/// The reason and the advice of a refusal.
fn refusal<T: std::fmt::Debug>(refused: StoreResult<T>) -> (String, &'static str) {
    match refused {
        Err(StoreError::Server { why, hint, unwritable: true, .. }) => (why, hint),
        other => panic!("not refused by the server: {other:?}"),
    }
}

#[test]
fn a_wrong_password_is_refused() {
    let Some(server) = own(&[]) else { return };
    let database = server.database();
    server
        .psql(&database, "CREATE ROLE me LOGIN PASSWORD 'right:@/?'; CREATE SCHEMA rejoin AUTHORIZATION me")
        .unwrap();
    server.set_rules("local all all scram-sha-256");
    let socket = server.socket().display();
    let with = |login: &str| format!("postgres://{login}@/{database}?host={socket}");
    let right = "me:right%3A%40%2F%3F";
    let (why, hint) = refusal(open(&with("me:wrong")));
    assert!(why.contains("password authentication failed for user \"me\""), "{why}");
    assert!(hint.contains("into the address") && hint.contains(".pgpass"), "{hint}");
    // None at all.
    let (why, hint) = refusal(open(&with("me")));
    assert!(why.contains("password missing") && hint.contains("PGPASSWORD"), "{why}; {hint}");
    let store = open(&with(right)).unwrap();
    let (mut talk, mut entries) = Talk::of(1, 2);
    store.append(talk.id, None, &entries).unwrap();
    drop(store);
    // The password changes while a store with a folder is in use: unsaved entries wait, and the error has the reason.
    let folder = support::folder();
    let location = with(right).parse::<Location>().unwrap().with_folder(folder.path());
    let store = rejoin_store::open(&location, WRITE).unwrap();
    server.psql("postgres", "ALTER ROLE me PASSWORD 'other'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'me'").unwrap();
    let next = talk.user("said meanwhile");
    let (why, _) = refusal(store.append(talk.id, tail(&entries), std::slice::from_ref(&next)));
    assert!(why.contains("password authentication failed"), "{why}");
    assert!(!format!("{store:?} {why}").contains("right"), "{why}");
    let store = open(&with("me:other")).unwrap();
    store.append(talk.id, tail(&entries), std::slice::from_ref(&next)).unwrap();
    entries.push(next);
    assert_eq!(hashes(&read(&*store, talk.id, 0).0), hashes(&entries));
}

/// Makes a certificate that is signed by its own key; as an authority, if that is wanted.
fn certificate(folder: &Path, name: &str, host: &str, is_authority: bool) -> Option<(PathBuf, PathBuf)> {
    let (key, certificate) = (folder.join(format!("{name}.key")), folder.join(format!("{name}.pem")));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={host}"), "-addext", &format!("subjectAltName=DNS:{host}")])
        .args([
            "-addext",
            &format!("basicConstraints=critical,CA:{}", if is_authority { "TRUE" } else { "FALSE" }),
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status();
    made.is_ok_and(|made| made.success()).then_some((key, certificate))
}

#[test]
fn a_certificate_is_checked_as_far_as_the_address_asks() {
    let folder = support::folder();
    let made = ["ours", "authority", "other"]
        .map(|name| certificate(folder.path(), name, "localhost", name == "authority"));
    let [Some(ours), Some(authority), Some(other)] = made else {
        return testkit::skipped::skip("openssl is not installed");
    };
    let port = free_port();
    let Some(server) = own(&["listen_addresses=127.0.0.1", &format!("port={port}")]) else { return };
    let database = server.database();
    server.set_rules("host all all 127.0.0.1/32 trust");
    let at = |host: &str, query: &str| open(&format!("postgres://postgres@{host}:{port}/{database}?{query}"));
    let roots = |path: &Path| format!("sslrootcert={}", path.display());

    // The server does not encrypt yet.
    let (why, hint) = refusal(at("localhost", "sslmode=require"));
    assert!(why.contains("TLS") && hint.contains("ssl = on"), "{why}; {hint}");
    at("localhost", "sslmode=prefer").unwrap();

    for (number, (key, certificate)) in [&ours, &authority].into_iter().enumerate() {
        let key = server.put(&format!("{number}.key"), &std::fs::read(key).unwrap());
        let file = server.put(&format!("{number}.crt"), &std::fs::read(certificate).unwrap());
        let set = |name: &str, value: &str| {
            server.psql("postgres", &format!("ALTER SYSTEM SET {name} = '{value}'")).unwrap();
        };
        set("ssl_key_file", key.to_str().unwrap());
        set("ssl_cert_file", file.to_str().unwrap());
        set("ssl", "on");
        server.psql("postgres", "SELECT pg_reload_conf()").unwrap();
        // The server reads its settings a moment later.
        let encrypts = || at("localhost", "sslmode=require");
        let begun = std::time::Instant::now();
        while encrypts().is_err() && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let store = encrypts().unwrap();
        server.set_rules("hostssl all all 127.0.0.1/32 trust");
        let (why, _) = refusal(at("localhost", "sslmode=disable"));
        assert!(why.contains("no encryption"), "{why}");
        let (talk, entries) = Talk::of(number as u64 + 1, 2);
        store.append(talk.id, None, &entries).unwrap();

        let whole = |host: &str, roots: &str| at(host, &format!("sslmode=verify-full&{roots}"));
        let begun = std::time::Instant::now();
        while whole("localhost", &roots(certificate)).is_err() && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let store = whole("localhost", &roots(certificate)).unwrap();
        assert_eq!(hashes(&read(&*store, talk.id, 0).0), hashes(&entries));
        // Signed by another authority.
        for mode in ["verify-ca", "verify-full"] {
            let (why, hint) = refusal(at("localhost", &format!("sslmode={mode}&{}", roots(&other.1))));
            assert!(why.contains("certificate"), "{why}");
            assert!(hint.contains("sslrootcert") && hint.contains("sslmode=require"), "{hint}");
        }
        let (why, _) = refusal(whole("localhost", "connect_timeout=5"));
        assert!(why.contains("certificate"), "{why}");
        // The certificate of another host.
        let (why, _) = refusal(whole("127.0.0.1", &roots(certificate)));
        assert!(why.contains("certificate"), "{why}");
        at("127.0.0.1", &format!("sslmode=verify-ca&{}", roots(certificate))).unwrap();
    }
    // A file that is none.
    let text = folder.path().join("text");
    std::fs::write(&text, "no certificate").unwrap();
    let refused = at("localhost", &format!("sslmode=verify-full&{}", roots(&text))).unwrap_err().to_string();
    assert!(refused.contains("contains no certificate"), "{refused}");
}

/// A small file system, which is unmounted in the end.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: PathBuf, megabytes: u32) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let owner = std::fs::metadata(&path).ok()?;
        let size = format!("size={megabytes}m,mode=0700,uid={},gid={}", owner.uid(), owner.gid());
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "rejoin-test"]).arg(&path).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(path))
    }

    fn grow(&self, megabytes: u32) {
        let size = format!("remount,size={megabytes}m");
        assert!(Command::new("mount").args(["-o", &size]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_saved() {
    let Some(server) = own(&[]) else { return };
    let folder = server.make_folder("small");
    let Some(mounted) = Mounted::at(folder.clone(), 24) else {
        return testkit::skipped::skip("only root can mount a small file system for a full disk");
    };
    let place = server.psql("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", folder.display()));
    place.unwrap();
    server.psql("postgres", "CREATE DATABASE d_small TABLESPACE small").unwrap();
    let store = open(&server.address("d_small")).unwrap();
    let (mut talk, mut entries) = Talk::of(1, 1);
    store.append(talk.id, None, &entries).unwrap();
    // Random letters, which the server cannot compress.
    let mut dice = testkit::faults::Dice(7);
    let mut text = || -> String { (0..20_000).map(|_| format!("{:x}", dice.roll())).collect() };
    let (unsaved, why, hint) = loop {
        assert!(entries.len() < 500, "the disk is never full");
        let next = talk.user(&text());
        match store.append(talk.id, tail(&entries), std::slice::from_ref(&next)) {
            Ok(_) => entries.push(next),
            refused => {
                let (why, hint) = refusal(refused);
                break (next, why, hint);
            }
        }
    };
    assert!(why.contains("No space left") && hint.contains("make room"), "{why}; {hint}");
    let (found, damage) = read(&*store, talk.id, 0);
    assert!(damage.is_empty() && hashes(&found) == hashes(&entries), "{damage:?}");
    // There is room again.
    mounted.grow(64);
    store.append(talk.id, tail(&entries), std::slice::from_ref(&unsaved)).unwrap();
    entries.push(unsaved);
    assert_eq!(hashes(&read(&*store, talk.id, 0).0), hashes(&entries));
    drop(store);
    drop(server);
}

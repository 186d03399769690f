//! Runs every operation of the binding on a real cluster: `round_trip CONF POOL`. Panics at the first wrong result.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use gnudi_rados::{Cluster, ConnectOptions, Librados, OmapPage, Pool};

const IN_FLIGHT: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [conf, pool] = arguments.as_slice() else { panic!("usage: round_trip CONF POOL") };
    let librados = Librados::load(Path::new(Librados::NAME)).unwrap();
    let options = ConnectOptions { conf: Some(PathBuf::from(conf)), ..ConnectOptions::default() };
    let cluster = Cluster::connect(&librados, &options).unwrap();
    commands(&cluster, pool);
    let pool = cluster.open_pool(pool).unwrap();
    // A pool keeps its connection alive.
    drop(cluster);
    data(&pool);
    omap(&pool);
    all_or_nothing(&pool);
    names(&pool);
    in_flight(&pool);
    println!("ok");
}

fn commands(cluster: &Cluster, pool: &str) {
    let answer = cluster.mon_command(r#"{"prefix": "osd pool ls", "format": "json"}"#).unwrap();
    assert!(String::from_utf8(answer).unwrap().contains(pool));
    let error = cluster.mon_command(r#"{"prefix": "no such command"}"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("no such command"), "{error}");
    let error = cluster.open_pool("no-such-pool").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

fn data(pool: &Pool) {
    assert_eq!(pool.stat("data").wait().unwrap_err().kind(), ErrorKind::NotFound);
    let error = pool.read("data", 0, 10).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        format!("read {}/data: No such file or directory (os error 2)", pool.name())
    );

    pool.create_full("data", b"").wait().unwrap();
    assert_eq!(pool.create_full("data", b"x").wait().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(pool.stat("data").wait().unwrap().size, 0);

    pool.write_full("data", b"0123456789").wait().unwrap();
    let read = |offset, len_max| pool.read("data", offset, len_max).wait().unwrap();
    assert_eq!(read(0, 100), (b"0123456789".to_vec(), 10));
    assert_eq!(read(6, 3), (b"678".to_vec(), 10));
    assert_eq!(read(8, 3), (b"89".to_vec(), 10));
    assert_eq!(read(8, 0), (Vec::new(), 10));
    assert_eq!(read(50, 3), (Vec::new(), 10), "past the end");
    let stat = pool.stat("data").wait().unwrap();
    assert_eq!(stat.size, 10);
    assert!(stat.modified.elapsed().unwrap().as_secs() < 60, "{stat:?}");
    pool.write_full("data", b"short").wait().unwrap();
    assert_eq!(read(0, 100), (b"short".to_vec(), 5));

    pool.remove("data").wait().unwrap();
    assert_eq!(pool.remove("data").wait().unwrap_err().kind(), ErrorKind::NotFound);
}

fn omap(pool: &Pool) {
    assert_eq!(pool.omap_page("map", None, b"", 10).wait().unwrap_err().kind(), ErrorKind::NotFound);
    let entry = |number: usize| {
        let value = vec![number as u8; number * 7 % 50];
        (format!("{}{number:04}", if number.is_multiple_of(2) { "even" } else { "odd" }).into_bytes(), value)
    };
    let mut entries: Vec<_> = (0..500).map(entry).collect();
    pool.operate("map", pool.write_operation().omap_set(&entries)).wait().unwrap();
    entries.sort();

    // Page by page, in key order.
    let mut found = Vec::new();
    loop {
        let last = found.last().map(|(key, _): &(Vec<u8>, Vec<u8>)| key.clone());
        let page = pool.omap_page("map", last.as_deref(), b"", 64).wait().unwrap();
        assert!(page.entries.len() <= 64);
        found.extend(page.entries);
        if !page.more {
            break;
        }
    }
    assert!(found == entries);

    let page = pool.omap_page("map", Some(b"even0490"), b"even", 100).wait().unwrap();
    let keys: Vec<_> = page.entries.iter().map(|(key, _)| key.as_slice()).collect();
    assert_eq!(keys, [b"even0492", b"even0494", b"even0496", b"even0498"]);
    assert!(!page.more);

    // Values are replaced.
    pool.operate("map", pool.write_operation().omap_set(&[("even0496", [7; 3])])).wait().unwrap();
    let page = pool.omap_page("map", Some(b"even0494"), b"even", 1).wait().unwrap();
    assert_eq!(page, OmapPage { entries: vec![(b"even0496".to_vec(), vec![7; 3])], more: true });

    pool.write_full("map", b"data").wait().unwrap();
    assert_eq!(pool.omap_page("map", None, b"odd", 1).wait().unwrap().entries.len(), 1, "the omap stays");
    pool.remove("map").wait().unwrap();
}

fn all_or_nothing(pool: &Pool) {
    let first = pool.write_operation().omap_set(&[("key", b"first")]).write_full(b"first");
    pool.operate("both", first).wait().unwrap();
    // The last step fails, so the first must not happen either.
    let refused = pool.write_operation().write_full(b"second").create_exclusive();
    let error = pool.operate("both", refused).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().starts_with("write "), "{error}");
    assert_eq!(pool.read("both", 0, 100).wait().unwrap().0, b"first");
    pool.remove("both").wait().unwrap();
}

fn names(pool: &Pool) {
    for error in [
        pool.write_full("a\0b", b"").wait().unwrap_err(),
        pool.operate("a", pool.write_operation().omap_set(&[("k\0", "")])).wait().unwrap_err(),
        pool.omap_page("a", Some(b"k\0"), b"", 1).wait().unwrap_err(),
        pool.omap_page("a", None, b"k\0", 1).wait().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().ends_with("contains a NUL byte"), "{error}");
    }
    assert_eq!(pool.stat("a").wait().unwrap_err().kind(), ErrorKind::NotFound, "nothing was written");
    pool.write_full("name with ünïcode", b"").wait().unwrap();
    pool.remove("name with ünïcode").wait().unwrap();
}

fn in_flight(pool: &Pool) {
    let name = |number: usize| format!("flight.{number}");
    let writes: Vec<_> =
        (0..IN_FLIGHT).map(|number| pool.write_full(&name(number), &[number as u8; 100])).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for write in writes {
            write.await.unwrap();
        }
        let reads: Vec<_> = (0..IN_FLIGHT).map(|number| pool.read(&name(number), 0, 200)).collect();
        for (number, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await.unwrap().0, [number as u8; 100]);
        }
    });
    // These are not awaited; dropping the pool in `main` waits for them.
    for number in 0..IN_FLIGHT {
        drop(pool.read(&name(number), 0, 1 << 20));
        drop(pool.remove(&name(number)));
    }
}

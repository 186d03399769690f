//! The rules of [`Objects`].

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;

use crate::objects::{NAME_BYTES_MAX, ObjectError, Objects};

/// More than any store lists, or deletes, in one response.
const MANY: usize = 1100;
/// Concurrent calls.
const AT_ONCE: usize = 16;
const LARGE_BYTES: usize = 20 << 20;

/// Runs all tests on a driver; each call of `make` must give two drivers on one new, empty store, like two
/// processes.
pub async fn objects<D: Objects>(make: impl AsyncFn() -> [Arc<D>; 2]) {
    let make = async || make().await.map(|driver| -> Arc<dyn Objects> { driver });
    let drivers = make().await;
    nothing_is_there(&*drivers[0]).await;
    what_one_writes_the_other_reads(&drivers).await;
    ranges(&drivers).await;
    only_one_creates(&drivers).await;
    deleting(&drivers).await;
    names(&drivers).await;
    large_objects(&drivers).await;
    lists(&make().await).await;
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Pseudo-random bytes, so that a shift or a gap shows.
fn pattern(len: usize) -> Bytes {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn exists(name: &str) -> Result<(), ObjectError> {
    Err(ObjectError::Exists(name.to_owned()))
}

async fn nothing_is_there(driver: &dyn Objects) {
    assert_eq!(driver.get("a/b").await, Ok(None));
    assert_eq!(driver.get_range("a/b", 0, 10).await, Ok(None));
    assert_eq!(driver.list("").await, Ok(Vec::new()));
    assert_eq!(driver.list("a/").await, Ok(Vec::new()));
    driver.delete(&["a/b".to_owned()]).await.unwrap();
    driver.delete(&[]).await.unwrap();
    assert!(!driver.place().is_empty());
}

async fn what_one_writes_the_other_reads([one, other]: &[Arc<dyn Objects>; 2]) {
    for (round, text) in ["first", "", "a longer third"].into_iter().enumerate() {
        one.put("put/it", bytes(text)).await.unwrap();
        assert_eq!(other.get("put/it").await, Ok(Some(bytes(text))));
        let name = format!("created/{round}");
        assert_eq!(other.get(&name).await, Ok(None));
        one.create(&name, bytes(text)).await.unwrap();
        for reader in [one, other] {
            assert_eq!(reader.get(&name).await, Ok(Some(bytes(text))));
        }
    }
}

async fn ranges([one, other]: &[Arc<dyn Objects>; 2]) {
    one.put("range/put", bytes("0123456789")).await.unwrap();
    one.create("range/created", bytes("0123456789")).await.unwrap();
    for name in ["range/put", "range/created"] {
        for (start, length, expected) in [
            (0, 10, "0123456789"),
            (0, 1, "0"),
            (3, 4, "3456"),
            (9, 1, "9"),
            (7, 100, "789"),
            (4, u64::MAX, "456789"),
            (10, 1, ""),
            (11, 5, ""),
            (1 << 40, 5, ""),
            (5, 0, ""),
        ] {
            let found = other.get_range(name, start, length).await;
            assert_eq!(found, Ok(Some(bytes(expected))), "{name}: {length} from {start}");
        }
    }
    one.put("range/empty", Bytes::new()).await.unwrap();
    one.create("range/empty-created", Bytes::new()).await.unwrap();
    for name in ["range/empty", "range/empty-created"] {
        assert_eq!(other.get(name).await, Ok(Some(Bytes::new())));
        assert_eq!(other.get_range(name, 0, 5).await, Ok(Some(Bytes::new())));
    }
}

/// Of several concurrent creates of a name one succeeds, and its bytes are stored.
async fn only_one_creates(drivers: &[Arc<dyn Objects>; 2]) {
    const NAMES: usize = 8;
    const CREATORS: usize = 6;
    for name in (0..NAMES).map(|number| format!("exclusive/{number}")) {
        let answers = join_all((0..CREATORS).map(|creator| {
            let (driver, name) = (drivers[creator % 2].clone(), name.clone());
            tokio::spawn(async move { driver.create(&name, bytes(&format!("creator {creator}"))).await })
        }));
        let answers: Vec<_> = answers.await.into_iter().map(|answer| answer.expect("no panic")).collect();
        let winners: Vec<usize> = (0..CREATORS).filter(|creator| answers[*creator].is_ok()).collect();
        assert_eq!(winners.len(), 1, "created {name}: {winners:?}");
        for (creator, answer) in answers.into_iter().enumerate() {
            assert!(creator == winners[0] || answer == exists(&name), "{answer:?}");
        }
        for driver in drivers {
            let content = bytes(&format!("creator {}", winners[0]));
            assert_eq!(driver.get(&name).await, Ok(Some(content)), "{name}");
        }
    }
    // The same bytes, and by the creator itself: still no success.
    drivers[0].create("exclusive/same", bytes("same")).await.unwrap();
    for driver in drivers {
        assert_eq!(driver.create("exclusive/same", bytes("same")).await, exists("exclusive/same"));
    }
}

async fn deleting([one, other]: &[Arc<dyn Objects>; 2]) {
    one.put("delete/a", bytes("a")).await.unwrap();
    one.create("delete/b", bytes("b")).await.unwrap();
    one.put("delete/c", bytes("c")).await.unwrap();
    let gone = ["delete/a", "delete/none", "delete/b"].map(str::to_owned);
    other.delete(&gone).await.unwrap();
    for reader in [one, other] {
        for name in &gone {
            assert_eq!(reader.get(name).await, Ok(None), "{name}");
            assert_eq!(reader.get_range(name, 0, 1).await, Ok(None), "{name}");
        }
        assert_eq!(reader.get("delete/c").await, Ok(Some(bytes("c"))));
    }
    other.delete(&gone).await.unwrap();
    // A deleted name can be created again.
    other.create("delete/b", bytes("again")).await.unwrap();
    assert_eq!(one.create("delete/b", bytes("late")).await, exists("delete/b"));
    assert_eq!(one.get("delete/b").await, Ok(Some(bytes("again"))));
}

async fn names(drivers: &[Arc<dyn Objects>; 2]) {
    let allowed =
        "names/ABCDEFGHIJKLMNOPQRSTUVWXYZ/abcdefghijklmnopqrstuvwxyz/0123456789-_./-/_/.../..a/.b/c.";
    let longest = format!("names/{}", "n".repeat(NAME_BYTES_MAX - 6));
    let names = [allowed, &longest, "names/x", "names/x-y", "names/X"].map(str::to_owned);
    for name in &names {
        drivers[0].put(name, bytes(name)).await.unwrap();
    }
    for name in &names {
        assert_eq!(drivers[1].get(name).await, Ok(Some(bytes(name))));
    }
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    assert_eq!(drivers[1].list("names/").await, Ok(sorted));
    drivers[0].delete(&["names/x".to_owned()]).await.unwrap();
    assert_eq!(drivers[1].get("names/x").await, Ok(None));
    assert_eq!(drivers[1].get("names/X").await, Ok(Some(bytes("names/X"))));
    let too_long = "n".repeat(NAME_BYTES_MAX + 1);
    for bad in
        ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a b", "a%2fb", "ä", &too_long]
    {
        for driver in drivers {
            let refused = |error: ObjectError| matches!(error, ObjectError::Refused(_));
            assert!(driver.put(bad, Bytes::new()).await.is_err_and(refused), "{bad:?}");
            assert!(driver.create(bad, Bytes::new()).await.is_err_and(refused), "{bad:?}");
            assert!(driver.get(bad).await.is_err_and(refused), "{bad:?}");
            assert!(driver.get_range(bad, 0, 1).await.is_err_and(refused), "{bad:?}");
            assert!(driver.delete(&[bad.to_owned()]).await.is_err_and(refused), "{bad:?}");
        }
    }
}

async fn large_objects([one, other]: &[Arc<dyn Objects>; 2]) {
    let content = pattern(LARGE_BYTES);
    one.create("large/created", content.clone()).await.unwrap();
    one.put("large/put", content.slice(1..)).await.unwrap();
    // Without assert_eq, which would print them.
    assert!(other.get("large/created").await.unwrap().unwrap() == content);
    assert!(other.get("large/put").await.unwrap().unwrap() == content.slice(1..));
    let end = other.get_range("large/created", LARGE_BYTES as u64 - 5, 100).await.unwrap().unwrap();
    assert!(end == content.slice(LARGE_BYTES - 5..));
    let middle = other.get_range("large/put", 9_999_999, 1_000_000).await.unwrap().unwrap();
    assert!(middle == content.slice(10_000_000..11_000_000));
    let both = ["large/created", "large/put"].map(str::to_owned);
    one.delete(&both).await.unwrap();
    assert_eq!(other.get("large/created").await, Ok(None));
}

async fn lists([one, other]: &[Arc<dyn Objects>; 2]) {
    let names: Vec<String> = (0..MANY).map(|number| format!("many/{number:05}")).collect();
    for chunk in names.chunks(AT_ONCE) {
        let writes = chunk.iter().enumerate().map(async |(at, name)| match at % 2 {
            0 => one.put(name, bytes(name)).await,
            _ => other.create(name, bytes(name)).await,
        });
        join_all(writes).await.into_iter().for_each(Result::unwrap);
    }
    one.put("manx", bytes("beside")).await.unwrap();
    one.put("man", bytes("beside")).await.unwrap();
    for driver in [one, other] {
        assert!(
            driver.list("many/").await.unwrap() == names,
            "not the names that were written, or not in order"
        );
        assert_eq!(driver.list("many/0001").await.unwrap(), names[10..20]);
        assert_eq!(driver.list("many/01099").await.unwrap(), names[1099..]);
        assert_eq!(driver.list("man").await.unwrap().len(), MANY + 2);
        assert_eq!(driver.list("").await.unwrap().len(), MANY + 2);
        assert_eq!(driver.list("nothing").await, Ok(Vec::new()));
    }
    other.delete(&names).await.unwrap();
    assert_eq!(one.list("").await.unwrap(), ["man", "manx"]);
    for name in [&names[0], &names[1], &names[MANY - 1]] {
        assert_eq!(one.get(name).await, Ok(None));
    }
}

//! `[indexer]`: the database of metadata.

use super::{Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [indexer]
    secret url(Kind::Url(&["postgresql", "postgres", "mysql", "mariadb", "sqlite"]),
        "Database of metadata: postgresql://[user[:password]@]host[:port]/database, or mysql://...; Gnocchi's \
         forms with +psycopg2 and +pymysql are accepted. Unset: in the data directory, with everything else.")
        { environment: "GNOCCHI_INDEXER_URL" };
    option connections_max(Kind::Int { min: 1, max: 1000 }, "10",
        "gnudi: maximum connections of a process that read from a shared database; one more writes.");
    option timeout(Kind::Seconds, "10",
        "gnudi: timeout of a call to a shared database, and of a read of the embedded one, in seconds; then 503.");
    option metrics_cached_max(POSITIVE, "20000000",
        "gnudi: maximum metrics cached in memory, at about 120 bytes each. Measures of others cost a query each.");
    option resources_cached_max(POSITIVE, "200000",
        "gnudi: maximum resources cached in memory, at about 1 kB each.");
    option changes_poll_ms(POSITIVE, "100",
        "gnudi: interval in milliseconds at which a process polls a shared database for changes of others \
         and invalidates its cache.");
    option changes_unseen_max_ms(POSITIVE, "10000",
        "gnudi: a process that could not poll for so many milliseconds does not use its cache until it can.");
};

//! `[indexer]`: where metadata lies.

use super::{Kind, POSITIVE, Spec};

pub const OPTIONS: &[Spec] = &options! {
    [indexer]
    secret url(Kind::Url(&["postgresql", "postgres", "mysql", "mariadb", "sqlite"]),
        "Where metadata lies: postgresql://[user[:password]@]host[:port]/database, or mysql://...; Gnocchi's \
         forms with +psycopg2 and +pymysql are taken. Unset: in the data directory, with everything else.")
        { environment: "GNOCCHI_INDEXER_URL" };
    option connections_max(Kind::Int { min: 1, max: 1000 }, "10",
        "gnudi: most connections of one process that read from a shared database at once; one more writes.");
    option timeout(Kind::Seconds, "10",
        "gnudi: seconds that a call to a shared database may take before it counts as down (503).");
    option metrics_cached_max(POSITIVE, "2000000",
        "gnudi: how many metrics the hot path keeps in memory, at about 200 bytes each.");
    option resources_cached_max(POSITIVE, "200000",
        "gnudi: how many resources are kept in memory, at about 1 kB each.");
    option changes_poll_ms(POSITIVE, "100",
        "gnudi: milliseconds after which a process looks again for what others have changed in a shared \
         database, and forgets it.");
    option changes_unseen_max_ms(POSITIVE, "10000",
        "gnudi: a process that could not look for so many milliseconds answers nothing from memory until it \
         can.");
};

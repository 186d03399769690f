//! The published tables that the report repeats, with their sources.

use crate::findings::{Table, cells};

pub struct Published {
    /// Its name on the page: `R1`.
    pub table: &'static str,
    pub title: &'static str,
    /// Where it was published, and the machine.
    pub source: &'static str,
    /// Single figures, each beside a row of ours.
    pub figures: &'static [Figure],
    pub tables: &'static [Lines],
    /// The rows that repeat them, by first word.
    pub rows: &'static str,
}

pub struct Figure {
    pub operation: &'static str,
    pub details: &'static str,
    /// Per second.
    pub rate: f64,
    /// The corresponding row of ours.
    pub row: &'static str,
    pub per_processor: bool,
}

/// A published table, as texts.
pub struct Lines {
    pub title: &'static str,
    /// Separated by `|`, as are the cells of rows.
    pub headings: &'static str,
    pub rows: &'static [&'static str],
}

impl Lines {
    pub fn table(&self) -> Table {
        let rows = self.rows.iter().map(|row| cells(row));
        Table::new(format!("published: {}", self.title), self.headings, rows)
    }
}

const fn figure(operation: &'static str, details: &'static str, rate: f64, row: &'static str) -> Figure {
    Figure { operation, details, rate, row, per_processor: false }
}

pub const ALL: [Published; 5] = [R1, R2, R3, R4, R5];

const R1: Published = Published {
    table: "R1",
    title: "Gnocchi 2: metrics, measures, reads",
    source: "J. Danjou, \"Benchmarking Gnocchi for fun and profit\": one server of 12 cores (2 x E5-2609v3), file driver, \
             PostgreSQL, no Keystone.",
    figures: &[
        figure("create metric", "100k metrics in 77 s", 1300.0, "create"),
        figure("show metric", "100k times in 149 s", 670.0, "show"),
        figure("delete metric", "100k in 190 s", 524.0, "delete"),
        figure("push, batch of 5,000", "5M measures in 40 s", 122e3, "push-5000"),
        figure("push, batch of 4,000", "5M measures in 40 s", 125e3, "push-4000"),
        figure("push, batch of 3,000", "5M measures in 40 s", 123e3, "push-3000"),
        figure("push, batch of 2,000", "5M measures in 41 s", 121e3, "push-2000"),
        figure("push, batch of 1,000", "5M measures in 44 s", 113e3, "push-1000"),
        figure("push, batch of 500", "5M measures in 51 s", 98e3, "push-500"),
        figure("push, batch of 100", "5M measures in 112 s", 45e3, "push-100"),
        figure("push, batch of 10", "5M measures in 852 s", 6e3, "push-10"),
        figure("push, batch of 1", "500k measures in 800 s", 624.0, "push-1-c64"),
        figure("get measures", "43k points of 1 metric, under 2 s", 260e3, "read"),
    ],
    tables: &[Lines {
        title: "worst case of the worker: 10k batches of 1 measure on a metric that holds 10k, methods std count 95pct min max \
                    sum median mean",
        headings: "Gnocchi | time | memory",
        rows: &["before its fix | more than 10 min | 2 GB", "after | 20 s | 100 MB"],
    }],
    rows: "create,show,delete,push,read",
};

const R2: Published = Published {
    table: "R2",
    title: "Gnocchi 4.0 with Redis",
    source: "J. Danjou, 2017: the same servers, Redis 4 for incoming measures, load by wrk with Lua.",
    figures: &[
        figure("push, batch of 5,000", "almost 1M measures/s", 1e6, "push-5000"),
        figure("get measures", "400k measures/s, 150 Mbit/s", 400e3, "read"),
        figure("get a year", "525,600 points by the minute in 1.3 s", 404e3, "read-year"),
        figure("get a day of 280 metrics", "403,200 points in 1 s", 403e3, "read-day"),
        Figure {
            operation: "worker, per processor",
            details: "50,400 servers polled by the minute on 12 cores",
            rate: 700.0,
            row: "stream",
            per_processor: true,
        },
    ],
    tables: &[],
    rows: "push-5000,read,stream",
};

const R3: Published = Published {
    table: "R3",
    title: "Gnocchi 4: processing and storage",
    source: "G. Chung: 4 clients of 12 threads against 32 uwsgi processes, 1K resources of 20 metrics, Ceph with 20 OSDs.",
    figures: &[
        figure("push, batch of 5,000 (Gnocchi 3)", "32 uwsgi processes", 970e3, "push-5000"),
        figure("push, batch of 5,000 (Gnocchi 4)", "32 uwsgi processes", 1.3e6, "push-5000"),
    ],
    tables: &[Lines {
        title: "processing, Gnocchi 4 against Gnocchi 3",
        headings: "work | result",
        rows: &[
            "20K metrics x 60 points | 18 workers of Gnocchi 4 beat 54 of Gnocchi 3; memory of a worker -35 %",
            "1.2M single measures streamed over 20K metrics | the backlog's peak is 50 % lower with a third of the \
                 workers, and drains 10 times quicker",
        ],
    }],
    rows: "process,stream",
};

const R4: Published = Published {
    table: "R4",
    title: "Ceilometer's agent",
    source: "2018: more than 5,000 virtual machines, 16 workers: 10 messages/s, then 40 once the endpoint is no longer looked up \
             per message (20 % of the processor), found with a flame graph.",
    figures: &[],
    tables: &[],
    rows: "",
};

const R5: Published = Published {
    table: "R5",
    title: "Ceph: splitting a placement group",
    source: "One client creates objects in a pool of one placement group, two OSDs on the memory store; then pg_num + 1, later \
             pgp_num + 1.",
    figures: &[],
    tables: &[Lines {
        title: "the client's delays, by how long objects were created before",
        headings: " | 120 s | 300 s | 600 s | 1200 s",
        rows: &[
            "objects | 95K | 250K | 512K | 975K",
            "pg delay | 1 s | 1 s | 2 s | 4 s",
            "pgp delay | 12 s | 14 s | 11 s | 12 s",
            "shuffle | 27 s | 86 s | 195 s | 380 s",
            "post-shuffle delay | 1 s | 16 s | 1 s | 1 s",
        ],
    }],
    rows: "",
};

package promqltest

import (
	"os"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// TestLanguage runs all files; each case is a subtest, called by its file and line.
func TestLanguage(t *testing.T) {
	under := server{base: os.Getenv("GNUDI_URL")}
	if under.base == "" {
		t.Fatal("missing: GNUDI_URL, the server under test")
	}
	open := func(t testing.TB) storage.Storage {
		if err := under.clear(); err != nil {
			t.Fatalf("the series of the file before: %v", err)
		}
		return store{under}
	}
	promqltest.RunBuiltinTestsWithStorage(t, engine{under}, open)
}

package promqltest

import (
	"context"
	"errors"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
)

var errNotAsked = errors.New("the tests ask the engine, not the storage")

// store is a storage.Storage that only takes samples.
type store struct {
	server server
}

func (s store) AppenderV2(context.Context) storage.AppenderV2 {
	return &appender{server: s.server, series: map[string]*prompb.TimeSeries{}}
}

func (store) Appender(context.Context) storage.Appender               { panic(errNotAsked) }
func (store) Querier(int64, int64) (storage.Querier, error)           { return nil, errNotAsked }
func (store) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) { return nil, errNotAsked }
func (store) StartTime() (int64, error)                               { return 0, errNotAsked }
func (store) Close() error                                            { return nil }

// appender gathers the samples of a load command.
type appender struct {
	server server
	series map[string]*prompb.TimeSeries
}

func (a *appender) Append(ref storage.SeriesRef, of labels.Labels, _, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, _ storage.AppendV2Options) (storage.SeriesRef, error) {
	// Native histograms are refused by the server; the cases that need them fail, and are listed.
	if h != nil || fh != nil {
		return ref, nil
	}
	key := of.String()
	series := a.series[key]
	if series == nil {
		series = &prompb.TimeSeries{Labels: prompb.FromLabels(of, nil)}
		a.series[key] = series
	}
	series.Samples = append(series.Samples, prompb.Sample{Value: v, Timestamp: t})
	return ref, nil
}

func (a *appender) Commit() error {
	all := make([]prompb.TimeSeries, 0, len(a.series))
	for _, series := range a.series {
		all = append(all, *series)
	}
	if len(all) == 0 {
		return nil
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return a.server.write(all)
}

func (a *appender) Rollback() error { return nil }

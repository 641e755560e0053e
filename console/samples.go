package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

const (
	// samplesAtOnce bounds how many readers there are of all the samples that there are; each keeps a connection busy.
	samplesAtOnce = 2
	// samplesTimeout is for a million samples over a slow line.
	samplesTimeout = 3 * time.Minute
)

func samplesRoutes() []route {
	return []route{{http.MethodGet, "/api/samples", Viewer, sendSamples}}
}

// sampleQuery is which samples a page is about, as it stands in its address.
type sampleQuery struct {
	Queue, Kind string
	Window      time.Duration // 0: all that history keeps
	Limit       int
}

// sampleWindows and sampleLimits are what the page offers; an address may have others.
func sampleWindows() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{15 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day, 0}
}

func sampleLimits() []int { return []int{10_000, pgqueue.DefaultSampleLimit, pgqueue.MaxSampleLimit} }

// parseSampleQuery reads queue, kind, window (a duration such as 1h, or "all") and limit.
func parseSampleQuery(values url.Values) (sampleQuery, error) {
	query := sampleQuery{Queue: values.Get("queue"), Kind: values.Get("kind"), Window: 24 * time.Hour, Limit: pgqueue.DefaultSampleLimit}
	switch window := values.Get("window"); window {
	case "":
	case "all", "0s":
		query.Window = 0
	default:
		parsed, err := time.ParseDuration(window)
		if err != nil || parsed <= 0 {
			return query, badRequest("window must be a duration such as 15m or 24h, or all.")
		}
		query.Window = parsed
	}
	if limit := values.Get("limit"); limit != "" {
		parsed, err := strconv.Atoi(limit)
		if err != nil || parsed < 1 || parsed > pgqueue.MaxSampleLimit {
			return query, badRequest("limit must be a number from 1 to " + strconv.Itoa(pgqueue.MaxSampleLimit) + ".")
		}
		query.Limit = parsed
	}
	return query, nil
}

// values is the query as it stands in an address.
func (q sampleQuery) values() url.Values {
	values := url.Values{"window": {windowText(q.Window)}, "limit": {strconv.Itoa(q.Limit)}}
	if q.Queue != "" {
		values.Set("queue", q.Queue)
	}
	if q.Kind != "" {
		values.Set("kind", q.Kind)
	}
	return values
}

func windowText(window time.Duration) string {
	if window == 0 {
		return "all"
	}
	text := window.String() // 1h0m0s
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// filter is the query in the form of the Inspector. The window is counted from this machine's time, as a person's would be.
func (q sampleQuery) filter(now time.Time) pgqueue.SampleFilter {
	filter := pgqueue.SampleFilter{Queue: q.Queue, Kind: q.Kind, Limit: q.Limit}
	if q.Window > 0 {
		filter.Since = now.Add(-q.Window)
	}
	return filter
}

// sendSamples answers with what attempts took, in the format of samples_format.go. It is sent as it is read: here is never more than
// a block of it, and when the browser leaves, the statement is cancelled. There is nothing to redact: a sample holds times and
// names of queues and kinds.
func sendSamples(r *request) error {
	query, err := parseSampleQuery(r.URL.Query())
	if err != nil {
		return err
	}
	select {
	case r.console.sampling <- struct{}{}:
		defer func() { <-r.console.sampling }()
	default:
		r.w.Header().Set("Retry-After", "5")
		return &httpError{status: http.StatusTooManyRequests, text: "Others are reading samples at this moment. Try again in a few seconds."}
	}
	r.allow(samplesTimeout)
	header := r.w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Vary", "Accept-Encoding")
	out, finish := io.Writer(r.w), func() error { return nil }
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
		packed, err := gzip.NewWriterLevel(r.w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		out, finish = packed, packed.Close
	}
	if r.Method == http.MethodHead {
		r.w.WriteHeader(http.StatusOK)
		return nil
	}
	writer := &sampleWriter{w: out}
	summary, err := r.inspector().Samples(r.Context(), query.filter(time.Now()), writer.add)
	if err != nil {
		return err
	}
	if err := writer.end(summary); err != nil {
		return err
	}
	return finish()
}

// acceptsGzip reads Accept-Encoding as far as it matters here.
func acceptsGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			quality, ok := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
			weight, err := strconv.ParseFloat(quality, 64)
			return !ok || err != nil || weight > 0
		}
	}
	return false
}

package console

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// updateGolden writes the golden file anew: go test ./console -run TestSamplesFormat -update-golden.
var updateGolden = flag.Bool("update-golden", false, "write assets/test/samples.golden.bin anew")

// goldenOutcomes are the outcomes in the order of their numbers.
func goldenOutcomes() []pgqueue.SampleOutcome {
	return []pgqueue.SampleOutcome{pgqueue.SampleSucceeded, pgqueue.SampleRetried, pgqueue.SampleFailed, pgqueue.SampleDead, pgqueue.SampleCancelled}
}

// The format has a writer in Go and a reader in TypeScript. Both are held to one file: this test writes it, test/columns.test.ts reads it.
func TestSamplesFormatIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out bytes.Buffer
	writer := &sampleWriter{w: &out, perBlock: 99}
	const rows = 250
	for n := range rows {
		sample := pgqueue.Sample{
			FinishedAt: start.Add(time.Duration(n)*time.Millisecond + 250*time.Microsecond), Wait: time.Duration(n) * 500 * time.Microsecond,
			Run: time.Duration(n) * 1500 * time.Microsecond, Queue: fmt.Sprintf("q%d", n%3), Kind: fmt.Sprintf("k%d", n%2), Attempt: n * 300, Outcome: goldenOutcomes()[n%5],
		}
		if n%10 == 0 {
			sample.Wait = -1
		}
		if n == rows-1 {
			sample.Queue = "späte" // a name that comes with the second block
		}
		if err := writer.add(sample); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.end(pgqueue.SampleSummary{Count: rows, Since: start, More: true}); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("assets", "test", "samples.golden.bin")
	if *updateGolden {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the format has changed: %d bytes, the golden file has %d. If that is meant: -update-golden, and make assets test-assets", out.Len(), len(want))
	}
}

// What is in no dictionary any more is still a row.
func TestTheNamesOfSamplesAreBounded(t *testing.T) {
	t.Parallel()
	writer := &sampleWriter{w: io.Discard}
	for n := range otherName + 10 {
		if err := writer.add(pgqueue.Sample{Queue: fmt.Sprint(n), Kind: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(writer.queues.numbers); got != otherName {
		t.Errorf("the dictionary has %d names, want %d at most", got, otherName)
	}
	if got := writer.queues.number("one more"); got != otherName {
		t.Errorf("a name beyond has number %d, want %d", got, otherName)
	}
}

// samplesRead is what a test reads of an answer.
type samplesRead struct {
	queues, kinds []string
	rows          []sampleRow
	samples       int
	more, ended   bool
}

type sampleRow struct {
	finished             time.Time
	wait, run            float64 // milliseconds; NaN is not known
	queue, kind, outcome string
	attempt              int
}

// readSamples reads the format in the plainest way.
func readSamples(t *testing.T, text []byte) samplesRead {
	t.Helper()
	var read samplesRead
	if len(text) < 8 || string(text[:4]) != samplesMagic || binary.LittleEndian.Uint32(text[4:]) != samplesVersion {
		t.Fatalf("these are no samples: %d bytes, %.40q", len(text), text)
	}
	for rest := text[8:]; len(rest) > 0; {
		what, length := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:])
		body := rest[8 : 8+length]
		rest = rest[8+length:]
		switch what {
		case blockNames:
			var names struct{ Queues, Kinds []string }
			unmarshal(t, body, &names)
			read.queues, read.kinds = append(read.queues, names.Queues...), append(read.kinds, names.Kinds...)
		case blockRows:
			read.addRows(body)
		case blockEnd:
			var end struct {
				Samples int
				More    bool
			}
			unmarshal(t, body, &end)
			read.samples, read.more, read.ended = end.Samples, end.More, true
		default:
			t.Fatalf("a block of the unknown kind %d", what)
		}
	}
	return read
}

func (r *samplesRead) addRows(body []byte) {
	n := int(binary.LittleEndian.Uint32(body))
	at := 8
	column := func(size int) []byte {
		values := body[at:]
		at += (n*size + 7) / 8 * 8
		return values
	}
	finished, wait, run := column(8), column(4), column(4)
	queue, kind, attempt, outcome := column(2), column(2), column(2), column(1)
	float := func(values []byte, i int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:])))
	}
	for i := range n {
		r.rows = append(r.rows, sampleRow{
			finished: time.UnixMicro(int64(math.Round(math.Float64frombits(binary.LittleEndian.Uint64(finished[8*i:])) * 1000))).UTC(),
			wait:     float(wait, i), run: float(run, i),
			queue: r.queues[binary.LittleEndian.Uint16(queue[2*i:])], kind: r.kinds[binary.LittleEndian.Uint16(kind[2*i:])],
			attempt: int(binary.LittleEndian.Uint16(attempt[2*i:])), outcome: string(goldenOutcomes()[outcome[i]]),
		})
	}
}

func unmarshal(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

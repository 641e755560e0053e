package console

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// The format of /api/samples, little-endian. It is read by assets/src/core/columns.ts, and is nobody else's: it may change with
// any version of the console.
//
//	4 bytes   "PGQS"
//	uint32    version: 1
//	blocks, each:
//	  uint32  what it is
//	  uint32  bytes of its body, a multiple of 8
//	  body, filled up with zeros (or with spaces, where it is JSON)
//
// The blocks:
//
//	1 names   JSON {"queues": […], "kinds": […]}: added to the end of both dictionaries
//	2 rows    uint32 n, uint32 0, and then columns of n values, each filled up to a multiple of 8 bytes:
//	            float64 finished, milliseconds since 1970
//	            float32 wait in milliseconds, NaN where it is not known
//	            float32 run, likewise
//	            uint16  queue, a place in the dictionary; 65535: one beyond it
//	            uint16  kind, likewise
//	            uint16  attempt, 65535 for that or more
//	            uint8   outcome: 0 succeeded, 1 retried, 2 failed, 3 dead, 4 cancelled
//	3 end     JSON {"samples": n, "since": milliseconds or 0, "more": bool}. Without it, the answer was cut off.
const (
	samplesMagic   = "PGQS"
	samplesVersion = 1

	blockNames = 1
	blockRows  = 2
	blockEnd   = 3

	// rowsPerBlock bounds what is held here: the columns of a block are some 750 kB.
	rowsPerBlock = 32_768
	otherName    = math.MaxUint16
)

// sampleWriter writes samples in that format, block by block. It is used by one goroutine.
type sampleWriter struct {
	w        io.Writer
	perBlock int // 0: rowsPerBlock
	begun    bool
	queues   dictionary
	kinds    dictionary
	columns  sampleColumns
	body     bytes.Buffer
}

// sampleColumns are the rows of a block.
type sampleColumns struct {
	finished             []float64
	wait, run            []float32
	queue, kind, attempt []uint16
	outcome              []uint8
}

// dictionary gives names numbers in the order in which they come.
type dictionary struct {
	numbers map[string]uint16
	fresh   []string // not sent yet
}

func (d *dictionary) number(name string) uint16 {
	number, ok := d.numbers[name]
	if ok {
		return number
	}
	if len(d.numbers) >= otherName {
		return otherName
	}
	if d.numbers == nil {
		d.numbers = map[string]uint16{}
	}
	number = uint16(len(d.numbers))
	d.numbers[name] = number
	d.fresh = append(d.fresh, name)
	return number
}

// add takes a sample, and sends a block when it is full.
func (s *sampleWriter) add(sample pgqueue.Sample) error {
	c := &s.columns
	c.finished = append(c.finished, float64(sample.FinishedAt.UnixMicro())/1000)
	c.wait, c.run = append(c.wait, milliseconds(sample.Wait)), append(c.run, milliseconds(sample.Run))
	c.queue, c.kind = append(c.queue, s.queues.number(sample.Queue)), append(c.kind, s.kinds.number(sample.Kind))
	c.attempt = append(c.attempt, uint16(min(max(sample.Attempt, 0), math.MaxUint16)))
	c.outcome = append(c.outcome, outcomeCode(sample.Outcome))
	if len(c.finished) < cmp.Or(s.perBlock, rowsPerBlock) {
		return nil
	}
	return s.flush()
}

// end sends what is left and the last block.
func (s *sampleWriter) end(summary pgqueue.SampleSummary) error {
	if err := s.flush(); err != nil {
		return err
	}
	since := int64(0)
	if !summary.Since.IsZero() {
		since = summary.Since.UnixMilli()
	}
	return s.text(blockEnd, map[string]any{"samples": summary.Count, "since": since, "more": summary.More})
}

func (s *sampleWriter) flush() error {
	if len(s.queues.fresh)+len(s.kinds.fresh) > 0 {
		if err := s.text(blockNames, map[string][]string{"queues": s.queues.fresh, "kinds": s.kinds.fresh}); err != nil {
			return err
		}
		s.queues.fresh, s.kinds.fresh = nil, nil
	}
	c := &s.columns
	if len(c.finished) == 0 {
		return nil
	}
	s.body.Reset()
	s.put(uint32(len(c.finished)))
	s.put(uint32(0))
	for _, column := range []any{c.finished, c.wait, c.run, c.queue, c.kind, c.attempt, c.outcome} {
		s.put(column)
		s.pad(0)
	}
	c.finished, c.wait, c.run = c.finished[:0], c.wait[:0], c.run[:0]
	c.queue, c.kind, c.attempt, c.outcome = c.queue[:0], c.kind[:0], c.attempt[:0], c.outcome[:0]
	return s.block(blockRows)
}

// put adds numbers to the body; the types above always fit.
func (s *sampleWriter) put(value any) { _ = binary.Write(&s.body, binary.LittleEndian, value) }

func (s *sampleWriter) pad(with byte) {
	for s.body.Len()%8 != 0 {
		s.body.WriteByte(with)
	}
}

func (s *sampleWriter) text(block uint32, value any) error {
	s.body.Reset()
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	s.body.Write(text)
	s.pad(' ')
	return s.block(block)
}

// block sends the body.
func (s *sampleWriter) block(what uint32) error {
	var head []byte
	if !s.begun {
		s.begun = true
		head = binary.LittleEndian.AppendUint32(append(head, samplesMagic...), samplesVersion)
	}
	head = binary.LittleEndian.AppendUint32(head, what)
	head = binary.LittleEndian.AppendUint32(head, uint32(s.body.Len()))
	if _, err := s.w.Write(head); err != nil {
		return err
	}
	_, err := s.w.Write(s.body.Bytes())
	return err
}

// milliseconds is a duration as a number, NaN where it is not known.
func milliseconds(d time.Duration) float32 {
	if d < 0 {
		return float32(math.NaN())
	}
	return float32(float64(d) / float64(time.Millisecond))
}

func outcomeCode(outcome pgqueue.SampleOutcome) uint8 {
	switch outcome {
	case pgqueue.SampleRetried:
		return 1
	case pgqueue.SampleFailed:
		return 2
	case pgqueue.SampleDead:
		return 3
	case pgqueue.SampleCancelled:
		return 4
	default:
		return 0
	}
}

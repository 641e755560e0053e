package pgqueue

import (
	"context"
	"encoding/json"

	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

const (
	// maxListMessage is how many bytes of a message a list shows.
	maxListMessage = 256
	// maxPeekSealed is how large the stored form of a value may be for Peek to decode it, in bytes.
	maxPeekSealed = 4 << 20

	// headOfSealed is how much of it says which key it was, in characters.
	headOfSealed = 256

	tooLargeToShow = "it is too large to be decoded for a preview"
)

// show decodes what a status holds in stored form. A strict client says of a result that is not encoded that it cannot be read:
// somebody may wait for it.
func (s *JobStatus) show(ctx context.Context, c *codecs) {
	for _, value := range []struct {
		field CodecField
		text  *json.RawMessage
	}{{FieldPayload, &s.Payload}, {FieldResult, &s.Result}} {
		s.showField(ctx, c, value.field, value.text)
	}
}

// showField decodes one value of a job in place, or notes why it cannot be.
func (s *JobStatus) showField(ctx context.Context, c *codecs, field CodecField, text *json.RawMessage) {
	strict := field == FieldResult && c != nil && c.strict && *text != nil
	if !isEnvelope(*text) && !strict || !json.Valid(*text) { // as Peek has cut it
		return
	}
	plain, sealed := c.showStrictly(ctx, field, s.Kind, string(*text), strict)
	if sealed == nil {
		*text = plain
		return
	}
	if s.Sealed == nil {
		s.Sealed = map[string]Sealed{}
	}
	s.Sealed[string(field)] = *sealed
}

// peekSealed is how much of an encoded value Peek reads.
func (i *Inspector) peekSealed(limit int) int {
	if i.client.codecs == nil {
		return max(limit, headOfSealed)
	}
	return max(limit, maxPeekSealed)
}

// openPeeked decodes the values of a record of which Peek has read all, cuts them to limit, and corrects their sizes. Of one that was
// cut, or cannot be decoded and is too long, it leaves the beginning, and says so in cut.
func (i *Inspector) openPeeked(ctx context.Context, record *jobstore.Record, sizes *jobstore.Sizes, limit int, cut map[string]*Sealed) {
	for _, value := range []struct {
		field CodecField
		text  *json.RawMessage
		size  *int
	}{{FieldPayload, &record.Payload, &sizes.Payload}, {FieldResult, &record.Result, &sizes.Result}} {
		if !isEnvelope(*value.text) {
			continue
		}
		if len(*value.text) < *value.size {
			reason := tooLargeToShow
			if i.client.codecs == nil {
				reason = ErrNoCodec.Error()
			}
			cut[string(value.field)] = sealedOf(string(*value.text), *value.size, reason)
			continue
		}
		plain, sealed := i.client.codecs.show(ctx, value.field, record.Kind, string(*value.text))
		if sealed != nil {
			cut[string(value.field)] = sealed // used if it is longer than limit
			continue
		}
		*value.text, *value.size = plain, len(plain)
	}
}

// listed is the excerpt of a payload in a list.
func (i *Inspector) listed(ctx context.Context, row *jobstore.Listed, preview int) Excerpt {
	stored := *row.Shown
	if !isEnvelope(stored) {
		return excerpt(stored, row.Stored, preview)
	}
	plain, sealed := i.client.codecs.show(ctx, FieldPayload, row.Kind, stored)
	shown := excerpt(string(plain), row.Stored, preview)
	shown.Sealed = sealed
	return shown
}

package pgqueue

import "encoding/json"

// Metadata is the metadata of the job as its options, and those of its type, put it together: a JSON object, or nil where
// there is none or none that could be stored, which the enqueue then refuses. It is for middleware that must not replace
// what is there; encoding it takes as long as the enqueue's own.
func (j NewJob) Metadata() json.RawMessage {
	args, _, err := resolveArgs(j.Args)
	if err != nil {
		return nil
	}
	s := collectSettings(args, j.Options)
	if s.noMetadata() && len(s.members) == 0 {
		return nil
	}
	object, err := s.encodeMetadata(largestMaxPayload)
	if err != nil {
		return nil
	}
	return object
}

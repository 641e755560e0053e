package main

import (
	"encoding/binary"
	"hash/fnv"
)

// answer is what a provider does with a send.
type answer string

const (
	accept    answer = "accepted"
	again     answer = "accepted already" // the key is known: 200, and the receipt of then
	lose      answer = "accepted, and the answer was lost"
	refuse    answer = "refused"
	limit     answer = "rate limited"
	breakDown answer = "unavailable"
	hang      answer = "hung"
)

// fate is what a notification will meet: first these answers, one a send, and then the last one for ever.
type fate []answer

// fateOf draws the fate of a notification from the seed: the same in every run.
func fateOf(seed uint64, notification int64) fate {
	h := fnv.New64a()
	var input [16]byte
	binary.LittleEndian.PutUint64(input[:8], seed)
	binary.LittleEndian.PutUint64(input[8:], uint64(notification))
	_, _ = h.Write(input[:]) // never fails
	sum := h.Sum64()
	switch dice, twice := (sum^sum>>32)%1000, sum>>60%2 == 0; {
	case dice < 30:
		return fate{refuse}
	case dice < 45:
		return fate{breakDown} // five times, and then the row is dead
	case dice < 55:
		return fate{hang} // likewise
	case dice < 115 && twice:
		return fate{breakDown, breakDown, accept}
	case dice < 115:
		return fate{breakDown, accept}
	case dice < 135:
		return fate{hang, accept}
	case dice < 150:
		return fate{lose, accept}
	case dice < 200 && twice:
		return fate{limit, limit, accept}
	case dice < 200:
		return fate{limit, accept}
	}
	return fate{accept}
}

// at is the answer to the send with this number, from 0.
func (f fate) at(send int) answer { return f[min(send, len(f)-1)] }

// end is the status in which a delivery of this fate ends, if nothing but the provider is in its way.
func (f fate) end() string {
	switch f[len(f)-1] {
	case accept:
		return "delivered"
	case refuse:
		return "failed"
	}
	return "dead"
}

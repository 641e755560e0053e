package runner

import "slices"

// favoured is how many claims in a row go through the classes in ascending order before one goes the other way.
const favoured = 4

// rotation decides in which order a claim prefers the classes; see [Config].
type rotation struct {
	classes []Class // ascending
	turn    int     // of the round: 0..favoured
	lead    int     // how many rounds have been led from behind
}

// order returns the preference of the next claim. The slice is the caller's.
func (r *rotation) order() []Class {
	order := slices.Clone(r.classes)
	if r.turn < favoured || len(order) < 2 {
		return order
	}
	slices.Reverse(order)
	// The lead goes over all classes but the first, which leads all the other claims.
	i := r.lead % (len(order) - 1)
	lead := order[i]
	copy(order[1:i+1], order[:i])
	order[0] = lead
	return order
}

// used notes that a claim in that order found something.
func (r *rotation) used() {
	r.turn++
	if r.turn > favoured {
		r.turn = 0
		r.lead++
	}
}

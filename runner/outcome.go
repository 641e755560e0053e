package runner

import "strconv"

// String returns the name in lower case, as metrics have it.
func (o Outcome) String() string {
	switch o {
	case Busy:
		return "busy"
	case Lost:
		return "lost"
	case Superseded:
		return "superseded"
	case Ineligible:
		return "ineligible"
	case Succeeded:
		return "succeeded"
	case Retrying:
		return "retrying"
	case Failed:
		return "failed"
	case Dead:
		return "dead"
	case Cancelled:
		return "cancelled"
	case Snoozed:
		return "snoozed"
	case Released:
		return "released"
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}

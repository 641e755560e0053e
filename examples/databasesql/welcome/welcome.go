// Package welcome is the job of these examples.
package welcome

// Send are its arguments.
type Send struct {
	UserID int64 `json:"user_id"`
}

// Kind names the kind; it is stored with each job.
func (Send) Kind() string { return "send_welcome" }

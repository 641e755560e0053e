package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/pgqueue/pgqueue/doctor"
)

func databaseRoutes() []route {
	return []route{{http.MethodGet, "/database", Viewer, showDatabase}}
}

// How old what the doctor has said may be. An examination is some fifty small queries: several people who look at once share one, and a
// click on "Examine again" makes a new one unless somebody else just did.
const (
	reportAge      = 30 * time.Second
	freshReportAge = 2 * time.Second
)

// examinations keeps the latest report of the doctor for all who look. The zero value is ready for use, by many goroutines.
type examinations struct {
	mu     sync.Mutex
	report *doctor.Report
	at     time.Time
}

// latest is a report that is no older than maxAge. Those who ask meanwhile wait for the one who examines; if that one leaves, the next
// one examines. The report must not be changed.
func (e *examinations) latest(ctx context.Context, c *Console, maxAge time.Duration) (*doctor.Report, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.report != nil && time.Since(e.at) < maxAge {
		return e.report, nil
	}
	report, err := doctor.Examine(ctx, c.config.Pool, doctor.Options{Schema: c.config.Schema})
	if err != nil {
		return nil, fmt.Errorf("examine the database: %w", err)
	}
	e.report, e.at = report, time.Now()
	return report, nil
}

// databasePage is what database.html shows.
type databasePage struct {
	Report   *doctor.Report
	Findings []finding
	Counts   []severityCount
	Again    string // examine anew
	Figures  *databaseFigures
}

// finding is a finding of the doctor with its number on the page.
type finding struct {
	doctor.Finding
	ID string
	// Shown is the summary as the one who asks may see it: it may hold the beginning of another session's query.
	Shown string
}

// severityCount is how many findings have a severity.
type severityCount struct {
	Severity doctor.Severity
	N        int
}

func showDatabase(r *request) error {
	maxAge := reportAge
	if r.URL.Query().Has("again") {
		maxAge = freshReportAge
	}
	report, err := r.console.examinations.latest(r.Context(), r.console, maxAge)
	if err != nil {
		return err
	}
	figures, err := readDatabase(r.Context(), r.console.config.Pool, r.console.config.Schema)
	if err != nil {
		return err
	}
	data := &databasePage{Report: report, Figures: figures, Again: r.url("/database", url.Values{"again": {"1"}})}
	counts := map[doctor.Severity]int{}
	for n := range report.Findings {
		counts[report.Findings[n].Severity]++
		data.Findings = append(data.Findings, finding{
			Finding: report.Findings[n], ID: fmt.Sprintf("finding-%d", n+1), Shown: r.shownMessage(Redaction{}, report.Findings[n].Summary),
		})
	}
	for _, severity := range []doctor.Severity{doctor.Error, doctor.Warning, doctor.Info} {
		data.Counts = append(data.Counts, severityCount{severity, counts[severity]})
	}
	return r.page(http.StatusOK, "database", "database", "Database health", data)
}

package browsertest

import (
	"testing"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Every screen, at both widths: no trouble in the browser, nothing serious for axe, nothing wider than the screen.
func TestScreens(t *testing.T) {
	// The guides' pictures are made here: a server set up as in production, so that the doctor has nothing to say about it.
	s := newSiteOn(t, pgqueuetest.NewServer(t, pgqueuetest.WithDurability()).DB(t))
	s.shop(t)
	for size := range widths {
		t.Run(size, func(t *testing.T) {
			tab := s.open(t, "olga", size)
			for name, path := range screens() {
				tab.goTo(path)
				tab.waitFor(settled)
				tab.accessible()
				var wide bool
				tab.evaluate(`document.documentElement.scrollWidth > window.innerWidth`, &wide)
				if wide {
					t.Errorf("%s is wider than the screen of a %s", name, size)
				}
				tab.screenshot(name)
			}
		})
	}
}

// settled says that the page has started its scripts and, where it computes, has done so: its button changes while it does.
const settled = `document.documentElement.dataset.ready !== undefined &&
	(page => page === null || ["done", "empty", "error"].includes(page.dataset.state))(document.getElementById("performance"))`

// screens are all screens by the name of their screenshot, as paths over the shop.
func screens() map[string]string {
	return map[string]string{
		"overview": "/", "jobs": "/jobs", "jobs-filtered": "/jobs?state=dead&queue=mail", "job-dead": "/jobs/7001", "job-running": "/jobs/8255", "job-waiting": "/jobs/8001",
		"job-confirm": "/jobs/7001/confirm/retry", "queues": "/queues", "queue": "/queues/billing", "queue-confirm": "/queues/mail/confirm/pause", "kinds": "/kinds",
		"attention": "/attention", "bulk-confirm": "/bulk/confirm?action=retry&state=dead&queue=mail", "operations": "/operations", "schedules": "/schedules",
		"schedule": "/schedules/exchange-rates", "schedule-edit": "/schedules/invoices/confirm/spec", "workers": "/workers", "worker": "/workers/mail-1",
		"workers-explained": "/workers/explained", "database": "/database", "performance": "/performance", "audit": "/audit",
	}
}

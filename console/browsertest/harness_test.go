package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait for something that the browser has to do. Waits end by events; this is for what never comes.
const patience = 30 * time.Second

// The widths at which every screen is looked at: a desk and a phone.
var widths = map[string]viewport{"desk": {1440, 900, false}, "phone": {390, 844, true}}

type viewport struct {
	width, height int64
	phone         bool
}

// chromium is the one browser of the test binary; each tab is a context of its own in it, with cookies of its own.
type chromium struct {
	ctx  context.Context
	stop func()
}

// browser starts the browser at the first call.
var browser = sync.OnceValues(func() (*chromium, error) {
	path, err := findChromium()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Flag("headless", "new"),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.WSURLReadTimeout(patience),
	)
	if os.Geteuid() == 0 { // Chromium's sandbox refuses root; the pages are our own
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !strings.Contains(text, "unhandled node event") { // of a browser newer than chromedp
			fmt.Fprintln(os.Stderr, "chromedp:", text)
		}
	}))
	if err := chromedp.Run(ctx); err != nil {
		stopBrowser()
		stopAllocator()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return &chromium{ctx: ctx, stop: func() { stopBrowser(); stopAllocator() }}, nil
})

// window makes a window in a context of its own: cookies and credentials as in a private window. chromedp's own option for this
// opens a tab, which a browser without a window refuses.
func (c *chromium) window() (id target.ID, forget func(), err error) {
	executor := cdp.WithExecutor(c.ctx, chromedp.FromContext(c.ctx).Browser)
	context, err := target.CreateBrowserContext().Do(executor)
	if err != nil {
		return "", nil, err
	}
	id, err = target.CreateTarget("about:blank").WithBrowserContextID(context).WithNewWindow(true).WithWidth(1440).WithHeight(900).Do(executor)
	return id, func() { _ = target.DisposeBrowserContext(context).Do(executor) }, err
}

func findChromium() (string, error) {
	if path := os.Getenv("PGQUEUE_TEST_CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium on this machine: run scripts/setup-browser.sh")
}

func TestMain(m *testing.M) {
	code := m.Run()
	if started, err := browser(); err == nil {
		started.stop()
	}
	os.Exit(code)
}

// tab is a page of the browser, logged in as somebody, that fails its test for everything that a user would not see but a
// developer would: an exception, a console error, something that the CSP refused, a request that failed.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site *site
	name string // of the viewport, for screenshots

	mu       sync.Mutex
	troubles []string
	expected []string
}

// open makes a tab of a size, logged in as user.
func (s *site) open(t *testing.T, user, size string) *tab {
	t.Helper()
	started, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	id, forget, err := started.window()
	if err != nil {
		t.Fatalf("open a window: %v", err)
	}
	ctx, cancel := chromedp.NewContext(started.ctx, chromedp.WithTargetID(id))
	ctx, cancelTimeout := context.WithTimeout(ctx, 4*time.Minute)
	tb := &tab{t: t, ctx: ctx, site: s, name: size}
	t.Cleanup(func() { cancelTimeout(); cancel(); forget() })
	chromedp.ListenTarget(ctx, tb.listen)
	if err := chromedp.Run(ctx); err != nil { // attached for the life of ctx, not of the first action's
		t.Fatalf("attach to a window: %v", err)
	}
	view := widths[size]
	tb.run(
		network.Enable(), cdplog.Enable(), runtime.Enable(), page.Enable(),
		emulation.SetDeviceMetricsOverride(view.width, view.height, 1, view.phone),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-reduced-motion", Value: "reduce"}, {Name: "prefers-color-scheme", Value: "light"},
		}),
	)
	if user != "" { // the way a person logs in: the browser keeps the credentials for the host
		tb.run(chromedp.Navigate(strings.Replace(s.URL, "http://", "http://"+user+":"+passwordOf(user)+"@", 1) + s.prefix + "/"))
	}
	t.Cleanup(func() {
		for _, trouble := range tb.found() {
			t.Errorf("the browser at %s said: %s", size, trouble)
		}
	})
	return tb
}

// run performs actions, and ends the test when one fails.
func (tb *tab) run(actions ...chromedp.Action) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		tb.t.Fatalf("browser: %v (at %s; troubles: %v)", err, tb.where(), tb.found())
	}
}

// goTo opens a path below the prefix and waits until it has loaded.
func (tb *tab) goTo(path string) {
	tb.t.Helper()
	tb.run(chromedp.Navigate(tb.site.URL + tb.site.prefix + path))
}

func (tb *tab) where() (location string) {
	ctx, cancel := context.WithTimeout(tb.ctx, 5*time.Second)
	defer cancel()
	_ = chromedp.Run(ctx, chromedp.Location(&location)) // for a message only
	return location
}

// evaluate runs JavaScript in the page, awaits a promise if it is one, and stores its value in into.
func (tb *tab) evaluate(script string, into any) {
	tb.t.Helper()
	tb.run(chromedp.Evaluate(script, into, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// waitFor waits until a JavaScript expression is true in the page; it is asked again at each frame, and in the next page where the
// browser goes on to one meanwhile.
func (tb *tab) waitFor(expression string) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	for {
		err := chromedp.Run(ctx, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(patience)))
		if err == nil {
			return
		}
		if ctx.Err() != nil || !navigated(err) {
			tb.t.Fatalf("browser: waited in vain (%v) at %s for %s; troubles: %v", err, tb.where(), expression, tb.found())
		}
	}
}

// navigated tells whether the page went away while it was asked.
func navigated(err error) bool {
	for _, words := range []string{"navigated or closed", "context was destroyed", "Cannot find context", "uniqueContextId not found"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// text is what a user reads in the first element of a selector.
func (tb *tab) text(selector string) (text string) {
	tb.t.Helper()
	tb.run(chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// screenshot keeps a picture of the whole page under a name, where PGQUEUE_TEST_SCREENSHOTS says.
func (tb *tab) screenshot(name string) {
	tb.t.Helper()
	var picture []byte
	tb.run(chromedp.FullScreenshot(&picture, 100))
	if len(picture) < 1000 {
		tb.t.Errorf("the screenshot %s has %d bytes", name, len(picture))
	}
	directory := os.Getenv("PGQUEUE_TEST_SCREENSHOTS")
	if directory == "" {
		return
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, name+"-"+tb.name+".png"), picture, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}

// expect says that a trouble which contains text is part of the test.
func (tb *tab) expect(text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expected = append(tb.expected, text)
}

func (tb *tab) found() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var found []string
	for _, trouble := range tb.troubles {
		known := false
		for _, expected := range tb.expected {
			known = known || strings.Contains(trouble, expected)
		}
		if !known {
			found = append(found, trouble)
		}
	}
	return found
}

func (tb *tab) listen(event any) {
	var trouble string
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		trouble = "exception: " + event.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.APITypeError || event.Type == runtime.APITypeWarning {
			var words []string
			for _, argument := range event.Args {
				words = append(words, string(argument.Value)+argument.Description)
			}
			trouble = "console: " + strings.Join(words, " ")
		}
	case *cdplog.EventEntryAdded: // CSP refusals, failed requests
		if event.Entry.Level == cdplog.LevelError || event.Entry.Level == cdplog.LevelWarning {
			trouble = fmt.Sprintf("log: %s %s", event.Entry.Text, event.Entry.URL)
		}
	}
	if trouble != "" {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.troubles = append(tb.troubles, trouble)
	}
}

// Package browsertest holds the tests of the console that need a real browser: each screen and each action in Chromium, at the
// width of a desk and of a phone, on the built and embedded assets and under the shipped Content-Security-Policy. It is a module of its own, so
// that the core knows no browser. The screenshots of the guides are made here.
//
// harness_test.go starts the browser, site_test.go a console over a database of its own. scripts/setup-browser.sh installs what is
// missing. PGQUEUE_TEST_SCREENSHOTS names a directory that keeps the screenshots.
package browsertest

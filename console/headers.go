package console

import "net/http"

// policy is the Content-Security-Policy of every answer: what is not built in and served from here is neither loaded nor run, no
// form leads elsewhere, and nobody frames a button. Nothing is inline, so not even an injected element would run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"worker-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// setHeaders sets what every answer has, errors and static files, too.
func setHeaders(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

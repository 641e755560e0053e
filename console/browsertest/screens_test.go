package browsertest

import "testing"

// Every screen, at both widths: no trouble in the browser, nothing serious for axe, nothing wider than the screen.
func TestScreens(t *testing.T) {
	s := newSite(t)
	for size := range widths {
		t.Run(size, func(t *testing.T) {
			tab := s.open(t, "olga", size)
			for name, path := range map[string]string{"overview": "/"} {
				tab.goTo(path)
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

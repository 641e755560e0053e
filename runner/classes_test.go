package runner

import (
	"slices"
	"testing"
)

func TestRotation(t *testing.T) {
	up := []Class{1, 2, 3, 4}
	want := [][]Class{up, up, up, up, {4, 3, 2, 1}, up, up, up, up, {3, 4, 2, 1}, up, up, up, up, {2, 4, 3, 1}, up, up, up, up, {4, 3, 2, 1}}
	r := rotation{classes: up}
	for i, w := range want {
		got := r.order()
		if !slices.Equal(got, w) {
			t.Errorf("claim %d: %v, want %v", i+1, got, w)
		}
		if !slices.Equal(r.order(), got) {
			t.Errorf("claim %d: an empty claim changed the order", i+1)
		}
		got[0] = 99 // the slice is the caller's
		r.used()
	}
	two := rotation{classes: []Class{1, 9}}
	for range 4 {
		two.used()
	}
	if got := two.order(); !slices.Equal(got, []Class{9, 1}) {
		t.Errorf("two classes: %v", got)
	}
	one := rotation{classes: []Class{7}}
	for range 20 {
		if got := one.order(); !slices.Equal(got, []Class{7}) {
			t.Fatalf("one class: %v", got)
		}
		one.used()
	}
}

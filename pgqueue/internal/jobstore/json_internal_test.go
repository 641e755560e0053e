package jobstore

import "testing"

func TestStorable(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a": 1}`: true, `null`: true, `"\\u0000"`: true, `"\\\\u0000"`: true, `"é\ud83d\ude00 \u00e9"`: true, `"\ud83d\ude00"`: true,
		``: false, `{`: false, `"\u0000"`: false, `"\\\u0000"`: false, `"\ud83d"`: false, `"\ud83dx"`: false, `"\ude00\ud83d"`: false,
		`"\ud83d\u0041"`: false, `"\ud83d\n\ude00"`: false, "\"\xff\"": false, "\"a\x00\"": false,
	} {
		if got := storable(text); got != want {
			t.Errorf("storable(%q) = %v", text, got)
		}
	}
}

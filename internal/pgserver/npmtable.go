package pgserver

import (
	"fmt"
	"runtime"
)

// npmPackage is one published archive of server binaries.
type npmPackage struct {
	name      string // of the package, which carries the platform
	major     int
	version   string
	integrity string // as the registry publishes it: "sha512-" and the digest in base64
}

// npmPlatform returns the platform's part of the package name, as npm spells it.
func npmPlatform(goos, goarch string) string {
	if goarch == "amd64" {
		goarch = "x64"
	}
	return goos + "-" + goarch
}

// npmPackages returns the pinned archives for this platform, newest first.
func npmPackages() []npmPackage {
	return npmPackagesFor(npmPlatform(runtime.GOOS, runtime.GOARCH))
}

// npmPackagesFor returns the pinned archives of one platform, newest first; none when the platform has no package. To move to
// a newer release, change the version and copy the field dist.integrity that "npm view NAME@VERSION" prints.
func npmPackagesFor(platform string) []npmPackage {
	versions := [...]struct {
		major   int
		version string
	}{
		{18, "18.4.0-beta.17"},
		{17, "17.10.0-beta.17"},
		{16, "16.14.0-beta.17"},
		{15, "15.18.0-beta.17"},
		{14, "14.23.0-beta.17"},
	}
	var packages []npmPackage
	for i, integrity := range npmIntegrity(platform) {
		if integrity == "" {
			continue
		}
		packages = append(packages, npmPackage{
			name:      fmt.Sprintf("@embedded-postgres/%s", platform),
			major:     versions[i].major,
			version:   versions[i].version,
			integrity: integrity,
		})
	}
	return packages
}

// npmIntegrity returns the published digests for the versions 18, 17, 16, 15, 14; empty where no archive exists.
func npmIntegrity(platform string) [5]string {
	switch platform {
	case "linux-x64":
		return [5]string{
			"sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
			"sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
			"sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
			"sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
			"sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
		}
	case "linux-arm64":
		return [5]string{
			"sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
			"sha512-mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
			"sha512-LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ==",
			"sha512-ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==",
			"",
		}
	case "darwin-arm64":
		return [5]string{
			"sha512-Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
			"sha512-E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
			"sha512-CB1DFZ08zfmNapx231rAJW74UZfs1jQmeGLwbQSaAIRVs2uqEdMhVNLwVlztFG3ZPSeuCsgTn/0yeYDmKF67og==",
			"sha512-1hTznqARpTs+IaX3YYltEIJVNwXCuUoHhif+Xiub09SgtzpVhX1LRaJCpzp8kVJV0zxsBBFfv8kkT9TqJdJ32Q==",
			"",
		}
	case "darwin-x64":
		return [5]string{
			"sha512-4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
			"sha512-gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
			"sha512-zikibpPYGWokfT/OFWNHCwerA3ZGat0ZyCIXOIbIucLBMDHztQ2WZQ9R5zil6oOxzElrMz2Q4aEOssGNrMDdyg==",
			"sha512-W4Vd2hDkezdUAniJesLY0MZIfVJtyN7DNg2Q6X0ciwuhGYw/dh8ZDdZLZxSFmVNvpz8Itfj2s2P4MTFPczMMnQ==",
			"",
		}
	case "windows-x64":
		return [5]string{
			"sha512-AwRerliA4IGWyW5jWBvHt5vidVUSB0QQW9Tt2y7ScnmifnCb/awfxZr4BkBSTv+gNt8Djcddqs+xSF5Z6/CkTg==",
			"sha512-q6xIETTkv67i1QlTWz1LAKb3Z+vG2V3qrp+BjLEWhCQ9jE4hbbsQ/J/3wiOPFLJbuwak7CfHC9EUJG7txAbGKw==",
			"sha512-Wn4nuAT1H7SIJuLWPs+C1aSdZKpbTloCr0Xaozdfg956lUVvv3iHv6K8Lsc+xmtt1qQpTno3PJLqAgzJ/lg60Q==",
			"sha512-QE/GDEXKhEgbOJ2EIn57qcHNso3TV3s5ixjxzx7lgz46yGKUzTgXEHrgTEw2ckkNpIJSu9kUVIKck1ijnMlurw==",
			"",
		}
	default:
		return [5]string{}
	}
}

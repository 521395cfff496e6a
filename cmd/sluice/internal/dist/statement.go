package main

import (
	"debug/buildinfo"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

const repository = "https://github.com/sluicehttp/sluice"

// sbom returns the modules of a binary as CycloneDX 1.6, without licenses. They are what the
// go command has written into the binary.
func (r *release) sbom(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	components := []object{component("library", "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, componentOf("library", m))
	}
	return encode(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": object{
			"timestamp": r.time.Format(time.RFC3339),
			"component": componentOf("application", &info.Main),
		},
		"components": components,
	})
}

func componentOf(kind string, m *debug.Module) object {
	return component(kind, m.Path, m.Version, m.Sum)
}

// component returns a component of an SBOM. sum is that of go.sum, or "".
func component(kind, path, version, sum string) object {
	// Of versions only the plus of +incompatible must be escaped in a package URL.
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := object{"type": kind, "bom-ref": url, "purl": url, "name": path, "version": version}
	if sum != "" {
		c["properties"] = []object{{"name": "go.sum", "value": sum}}
	}
	return c
}

// provenance returns a statement of in-toto with SLSA's predicate: from which commit, by which
// Go and by what command the products come. It names no time and no machine, so everybody
// who repeats the build gets the same one.
func (r *release) provenance(products []product) ([]byte, error) {
	subject := make([]object, 0, len(products))
	for _, p := range products {
		subject = append(subject, object{"name": p.name, "digest": object{"sha256": p.sha256}})
	}
	return encode(object{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subject,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          repository + "/blob/" + r.version + "/docs/releasing.md",
				"externalParameters": object{"command": ".ci/release build " + r.version + " DIR"},
				"resolvedDependencies": []object{
					{"uri": "git+" + repository + "@refs/tags/" + r.version, "digest": object{"gitCommit": r.commit}},
					{"uri": "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")},
				},
			},
			"runDetails": object{
				"builder": object{"id": repository + "/blob/" + r.commit + "/.ci/release"},
			},
		},
	})
}

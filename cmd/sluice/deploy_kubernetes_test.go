//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// A manifest has the parts of Kubernetes' objects that the test looks at.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		MinAvailable int                         `yaml:"minAvailable"`
		MinReplicas  int                         `yaml:"minReplicas"`
		MaxReplicas  int                         `yaml:"maxReplicas"`
		Target       struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Replicas     *int
		Selector     map[string]any   `yaml:"selector"`
		Ports        []map[string]any `yaml:"ports"`
		Template     struct {
			Metadata struct {
				Labels, Annotations map[string]string
			}
			Spec struct {
				Grace           int            `yaml:"terminationGracePeriodSeconds"`
				SecurityContext map[string]any `yaml:"securityContext"`
				Containers      []container
				Spread          []struct {
					Selector map[string]map[string]string `yaml:"labelSelector"`
				} `yaml:"topologySpreadConstraints"`
			}
		}
	}
}

type container struct {
	Args  []string
	Ports []struct {
		Name   string
		Number int `yaml:"containerPort"`
	}
	StartupProbe    probe          `yaml:"startupProbe"`
	ReadinessProbe  probe          `yaml:"readinessProbe"`
	LivenessProbe   probe          `yaml:"livenessProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
	Resources       struct{ Requests map[string]string }
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	Period  int                         `yaml:"periodSeconds"`
	Fails   int                         `yaml:"failureThreshold"`
}

// manifests returns the objects of deploy/kubernetes by kind.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	all := make(map[string]manifest)
	for d := yaml.NewDecoder(strings.NewReader(readDeployed(t, "kubernetes", "sluice.yaml"))); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind] = m
	}
}

// The manifests agree with the command and with each other: flags, ports, times, labels.
func TestKubernetes(t *testing.T) {
	all := manifests(t)
	pod := all["Deployment"].Spec.Template
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%+v", all)
	}
	c := pod.Spec.Containers[0]
	cmd := parsed(t, c.Args...)
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = fmt.Sprintf(":%d", p.Number)
	}
	for name, flag := range map[string]string{"http": "addr", "admin": "admin"} {
		if got := cmd.Flag(flag).Value.String(); got == "" || got != ports[name] {
			t.Errorf("--%s=%s, and the port is %q", flag, got, ports[name])
		}
	}
	if grace, longest := time.Duration(pod.Spec.Grace)*time.Second, ends(t, cmd); grace <= longest {
		t.Errorf("terminationGracePeriodSeconds is %v, and the command may need %v", grace, longest)
	}
	notices := time.Duration(c.ReadinessProbe.Period*c.ReadinessProbe.Fails) * time.Second
	if wait, err := time.ParseDuration(cmd.Flag("drain-wait").Value.String()); err != nil || wait <= notices {
		t.Errorf("--drain-wait=%v, and a probe needs %v", wait, notices)
	}
	for _, p := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p.HTTPGet.Port != "admin" {
			t.Errorf("%+v", p)
		}
	}
	if pod.Metadata.Annotations["prometheus.io/port"] != strings.TrimPrefix(ports["admin"], ":") {
		t.Error("Prometheus reads another port")
	}
	if c.SecurityContext["readOnlyRootFilesystem"] != true || pod.Spec.SecurityContext["runAsNonRoot"] != true {
		t.Error("the container may write, or is root")
	}
	service := all["Service"].Spec
	if service.Selector["app"] != pod.Metadata.Labels["app"] || service.Ports[0]["targetPort"] != "http" {
		t.Errorf("%+v", service)
	}
	scaled := all["HorizontalPodAutoscaler"].Spec
	if n := all["PodDisruptionBudget"].Spec.MinAvailable; n < 1 || n >= scaled.MinReplicas || scaled.MinReplicas > scaled.MaxReplicas {
		t.Errorf("%d of %d to %d pods must be available", n, scaled.MinReplicas, scaled.MaxReplicas)
	}
	if all[scaled.Target.Kind].Metadata.Name != scaled.Target.Name || scaled.Target.Name == "" || c.Resources.Requests["cpu"] == "" || all["Deployment"].Spec.Replicas != nil {
		t.Errorf("%+v scales nothing, or each apply scales back", scaled)
	}
	if s := pod.Spec.Spread; len(s) != 1 || s[0].Selector["matchLabels"]["app"] != pod.Metadata.Labels["app"] {
		t.Errorf("other pods are spread: %+v", s)
	}
}

// The command answers the probes, and only these paths.
func TestKubernetesProbes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	c := manifests(t)["Deployment"].Spec.Template.Spec.Containers[0]
	p := startPreforked(t, "--admin", "127.0.0.1:0")
	m := regexp.MustCompile(`status and metrics: (\S+)`)
	eventually(t, "the admin's address", func() bool { return m.MatchString(p.text()) })
	admin := &preforked{url: "http://" + m.FindStringSubmatch(p.text())[1]}
	for _, path := range []string{c.StartupProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, "/metrics"} {
		if _, err := admin.get(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := admin.get("/no/such/probe"); err == nil {
		t.Error("it answers any path")
	}
}

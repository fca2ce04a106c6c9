{{- /* What `corral kubernetes webhook-config` prints, for the chart's service. `ca` is in base64. */ -}}
{{- define "corral.webhook" -}}
{{- $ca := .ca -}}
{{- with .chart -}}
{{- if not .Values.rights.podsOfOthers -}}
{{- fail "webhook.enabled: without rights.podsOfOthers nobody would bind the pods whose scheduler the webhook sets" -}}
{{- end -}}
{{- if not (or .Values.webhook.clientCA (.Values.settings.kubernetes | default dict).admission_without_certificate) -}}
{{- fail "webhook.enabled: the server would refuse the API server; give webhook.clientCA, the authority (PEM) of the certificate that it shows, or settings.kubernetes.admission_without_certificate: true, as it shows none unless it is configured to" -}}
{{- end -}}
{{- $name := include "corral.name" . -}}
{{- range $kind, $path := dict "Mutating" "mutate" "Validating" "validate" }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: {{ $kind }}WebhookConfiguration
metadata:
  name: {{ $name }}
  labels:
    {{- include "corral.labels" $.chart | nindent 4 }}
webhooks:
- name: {{ $path }}.admission.corral.dev
  admissionReviewVersions: [v1]
  clientConfig:
    service:
      name: {{ $name }}
      namespace: {{ $.chart.Release.Namespace }}
      path: /admission/{{ $path }}
      port: {{ $.chart.Values.service.port }}
    caBundle: {{ $ca }}
  sideEffects: None
  # A server that is away stops no pods.
  failurePolicy: Ignore
  timeoutSeconds: 3
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - {key: corral.dev/admission, operator: In, values: [enabled]}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ $.chart.Release.Namespace }}]}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
{{- end }}
{{- end -}}
{{- end }}

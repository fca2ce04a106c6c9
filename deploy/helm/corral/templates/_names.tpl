{{- define "corral.name" -}}
{{- /* Leases, agents and holds of GPUs are in this namespace, wherever servers are. */ -}}
{{- if ne .Release.Namespace "corral-system" -}}
{{- fail (printf "install into the namespace corral-system (--namespace corral-system --create-namespace), not %s: the servers of a cluster agree there which of them binds pods" .Release.Namespace) -}}
{{- end -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "corral.own-labels" -}}
app.kubernetes.io/name: corral
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "corral.labels" -}}
{{ include "corral.own-labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "corral.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "corral.tls-secret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "corral.name" .)) -}}
{{- end }}

{{- define "corral.client-ca" -}}
{{- $authorities := list -}}
{{- if .Values.extender.enabled -}}
{{- $authorities = append $authorities (required "extender.clientCA: the authority (PEM) of kube-scheduler's certificate" .Values.extender.clientCA | trim) -}}
{{- end -}}
{{- if and .Values.webhook.enabled .Values.webhook.clientCA -}}
{{- $authorities = append $authorities (trim .Values.webhook.clientCA) -}}
{{- end -}}
{{- $authorities | uniq | join "\n" -}}
{{- end }}

{{- define "corral.scheduler" -}}
{{- (.Values.settings.kubernetes | default dict).scheduler_name | default "corral" -}}
{{- end }}

{{- define "corral.settings" -}}
{{- $agents := printf "%s/%s-agent" .Release.Namespace (include "corral.name" .) -}}
{{- $cluster := merge (dict "namespace" .Values.jobs.namespace "agent_account" $agents) (.Values.settings.kubernetes | default dict) -}}
{{- merge (dict "engine" "kubernetes" "kubernetes" $cluster) (omit .Values.settings "kubernetes") | toYaml -}}
{{- end }}

package redact

// families lists the tokens that can be told by their form alone, after what
// their issuers publish about them. Lengths are a little below the published
// ones, so that a token that was cut, or a longer one issued later, is hidden
// too; the check keeps placeholders and ordinary words out.
//
// Services whose tokens have no form of their own are found by the names
// they are stored under; see keyed.
func families() []family {
	all := codeFamilies()
	all = append(all, cloudFamilies()...)
	all = append(all, modelFamilies()...)
	return append(all, serviceFamilies()...)
}

// codeFamilies are forges, registries and what builds and ships code.
func codeFamilies() []family {
	return []family{
		{name: "github", prefixes: "ghp_ gho_ ghu_ ghr_", body: `[0-9A-Za-z]{16,}`, check: issued},
		{name: "github-app", prefixes: "ghs_", body: `[0-9A-Za-z_.-]{16,}`, check: issued},
		{name: "github-fine-grained", prefixes: "github_pat_", body: `[0-9A-Za-z_]{22,}`, check: varied},
		{name: "gitlab", prefixes: "glpat- gldt- glrt- glrtr- glft- glsoat- glffct- glimt- glptt- glagent- gloas- glwt-", body: `[0-9A-Za-z_.-]{20,}`, check: varied},
		{name: "gitlab-job", prefixes: "glcbt-", body: `[0-9A-Za-z]{1,5}_[0-9A-Za-z_-]{16,}`, check: varied},
		{name: "gitlab-runner", prefixes: "GR1348941", body: `[0-9A-Za-z_-]{20,}`, check: varied},
		{name: "gitlab-session", prefixes: "_gitlab_session=", body: `([0-9a-z]{32,})`, check: varied},
		{name: "bitbucket", prefixes: "ATBB", body: `[0-9A-Za-z_=]{24,}`, check: varied},
		{name: "bitbucket-server", prefixes: "BBDC-", body: `[0-9A-Za-z+/@_-]{40,}`, check: varied},
		{name: "atlassian", prefixes: "ATATT3 ATCTT3", body: `[0-9A-Za-z_=-]{40,}`, check: varied},
		{name: "trello", prefixes: "ATTA", body: `[0-9a-f]{60,}`, check: varied},
		{name: "npm", prefixes: "npm_", body: `[0-9A-Za-z]{30,}`, check: varied},
		{name: "pypi", prefixes: "pypi-Ag", body: `[0-9A-Za-z_-]{40,}`, check: varied},
		{name: "rubygems", prefixes: "rubygems_", body: `[0-9a-f]{40,}`, check: varied},
		{name: "crates", prefixes: "cio", body: `[0-9A-Za-z]{32}`, check: varied},
		{name: "nuget", prefixes: "oy2", body: `[0-9a-z]{43}`, check: varied},
		{name: "clojars", prefixes: "CLOJARS_", body: `[0-9a-z]{50,}`, check: varied},
		{name: "packagist", prefixes: "packagist_oat_ packagist_org_ packagist_ack_", body: `[0-9a-f]{40,}`, check: varied},
		{name: "docker-hub", prefixes: "dckr_pat_ dckr_oat_", body: `[0-9A-Za-z_-]{24,}`, check: varied},
		{name: "jfrog", prefixes: "AKCp", body: `[0-9A-Za-z]{60,}`, check: varied},
		{name: "jfrog-reference", prefixes: "cmVmd", body: `[0-9A-Za-z]{55,}`, check: varied},
		{name: "circleci", prefixes: "CCIPAT_ CCIPRJ_", body: `[0-9A-Za-z]{16,32}_[0-9a-f]{40,}`, check: varied},
		{name: "buildkite", prefixes: "bkua_ bkaj_", body: `[0-9a-f]{40,}`, check: varied},
		{name: "sonar", prefixes: "squ_ sqp_ sqa_", body: `[0-9a-f]{36,}`, check: varied},
		{name: "sourcegraph", prefixes: "sgp_", body: `[0-9a-z_]{40,}`, check: varied},
		{name: "sourcegraph-user", prefixes: "slk_", body: `[0-9a-f]{60,}`, check: varied},
		{name: "postman", prefixes: "PMAK-", body: `[0-9a-f]{24}-[0-9a-f]{30,}`, check: varied},
		{name: "pulumi", prefixes: "pul-", body: `[0-9a-f]{40}`, check: varied},
		{name: "terraform", prefixes: ".atlasv1.", body: `([0-9A-Za-z_=-]{50,})`, check: varied, after: aWord},
		{name: "vault", prefixes: "hvs. hvb. hvr.", body: `[0-9A-Za-z_-]{24,}`, check: varied},
		{name: "doppler", prefixes: "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", body: `[0-9A-Za-z._-]{36,}`, check: varied},
		{name: "1password", prefixes: "A3-", body: `[0-9A-Z]{6}-[0-9A-Z]{5,11}-[0-9A-Z-]{17,}`, check: spread},
		{name: "1password-service", prefixes: "ops_eyJ", body: `[0-9A-Za-z+/]{100,}`, check: varied},
		{name: "age", prefixes: "AGE-SECRET-KEY-1", body: `[02-9AC-HJ-NP-Z]{50,}`, check: spread},
		{name: "infracost", prefixes: "ico-", body: `[0-9A-Za-z]{32}`, check: varied},
		{name: "octopus", prefixes: "API-", body: `[0-9A-Z]{26,}`, check: spread},
		{name: "harness", prefixes: "pat. sat.", body: `[0-9A-Za-z_-]{20,24}\.[0-9A-Za-z]{20,26}\.[0-9A-Za-z]{18,}`, check: varied},
		{name: "prefect", prefixes: "pnu_ pnb_", body: `[0-9A-Za-z]{36}`, check: varied},
		{name: "openshift", prefixes: "sha256~", body: `[0-9A-Za-z_-]{43}`, check: varied},
		{name: "launchdarkly", prefixes: "sdk- mob- api-", body: uuid, check: varied},
		{name: "linear", prefixes: "lin_api_ lin_oauth_", body: `[0-9A-Za-z]{32,}`, check: varied},
		{name: "sentry", prefixes: "sntrys_ sntryu_ sntryi_", body: `[0-9A-Za-z+/=_]{48,}`, check: varied},
		{name: "snyk", prefixes: "snyk_uat. snyk_sat.", body: `[0-9A-Za-z._-]{32,}`, check: varied},
		{name: "codecov-upload", prefixes: "codecov_", body: `[0-9a-f]{32,}`, check: varied},
		{name: "figma", prefixes: "figd_ figo_", body: `[0-9A-Za-z_-]{36,}`, check: varied},
		{name: "adobe", prefixes: "p8e-", body: `[0-9A-Za-z_-]{32}`, check: varied},
		{name: "wakatime", prefixes: "waka_", body: uuid, check: varied},
		{name: "tailscale", prefixes: "tskey-auth- tskey-api- tskey-client- tskey-scim- tskey-webhook-", body: `[0-9A-Za-z-]{18,}`, check: varied},
		{name: "defined-networking", prefixes: "dnkey-", body: `[0-9A-Za-z=_-]{60,}`, check: varied},
		{name: "deno", prefixes: "ddp_ ddw_", body: `[0-9A-Za-z]{36}`, check: varied},
	}
}

// cloudFamilies are those who run code and keep data.
func cloudFamilies() []family {
	return []family{
		{name: "aws", prefixes: "AKIA ASIA ABIA ACCA", body: `[0-9A-Z]{16}`, check: spread},
		{name: "aws-bedrock", prefixes: "ABSK", body: `[0-9A-Za-z+/=]{100,}`, check: varied},
		{name: "aws-bedrock-session", prefixes: "bedrock-api-key-", body: `[0-9A-Za-z+/=]{32,}`, check: varied},
		{name: "google-api", prefixes: "AIza", body: `[0-9A-Za-z_-]{35,}`, check: varied},
		{name: "google-oauth", prefixes: "ya29.", body: `[0-9A-Za-z_.-]{24,}`, check: varied},
		{name: "google-refresh", prefixes: "1//0", body: `[0-9A-Za-z_-]{40,}`, check: varied},
		{name: "google-client", prefixes: "GOCSPX-", body: `[0-9A-Za-z_-]{24,}`, check: varied},
		{name: "azure-client", prefixes: "Q~", body: `[0-9A-Za-z_~.-]{31,34}`, check: varied, after: azureHead},
		{name: "azure-storage", prefixes: "AccountKey= SharedAccessKey= SharedSecret=", body: `([0-9A-Za-z+/=]{40,})`, check: varied},
		{name: "azure-sas", prefixes: "sig=", body: `([0-9A-Za-z%+/]{42,})`, check: varied},
		{name: "alibaba", prefixes: "LTAI", body: `[0-9A-Za-z]{12,}`, check: varied},
		{name: "tencent", prefixes: "AKID", body: `[0-9A-Za-z]{32}`, check: varied},
		{name: "yandex", prefixes: "AQVN", body: `[0-9A-Za-z_-]{35,38}`, check: varied},
		{name: "yandex-iam", prefixes: "t1.", body: `[0-9A-Za-z_.=-]{60,}`, check: varied},
		{name: "yandex-static", prefixes: "YCAJ YCP", body: `[0-9A-Za-z_-]{20,}`, check: varied},
		{name: "yandex-oauth", prefixes: "y0_", body: `[0-9A-Za-z_-]{50,}`, check: varied},
		{name: "digitalocean", prefixes: "dop_v1_ doo_v1_ dor_v1_", body: `[0-9a-f]{60,}`, check: varied},
		{name: "cloudflare", prefixes: "cfut_ cfat_ cfk_", body: `[0-9A-Za-z_-]{40,}`, check: varied},
		{name: "cloudflare-origin", prefixes: "v1.0-", body: `[0-9a-f]{24}-[0-9a-f]{100,}`, check: varied},
		{name: "databricks", prefixes: "dapi dose dkea", body: `[0-9a-f]{32,}`, check: varied},
		{name: "fly", prefixes: "fm1r_ fm1a_ fm2_ fo1_", body: `[0-9A-Za-z+/=_-]{43,}`, check: varied},
		{name: "heroku", prefixes: "HRKU-", body: `[0-9A-Za-z_-]{36,}`, check: varied},
		{name: "netlify", prefixes: "nfp_ nfc_ nfo_ nfu_", body: `[0-9A-Za-z]{36,}`, check: varied},
		{name: "render", prefixes: "rnd_", body: `[0-9A-Za-z]{28,}`, check: varied},
		{name: "vercel", prefixes: "vercel_blob_rw_ vcp_ vci_ vca_ vcr_ vck_", body: `[0-9A-Za-z_]{24,}`, check: varied},
		{name: "scalingo", prefixes: "tk-us- tk-eu-", body: `[0-9A-Za-z_-]{40,}`, check: varied},
		{name: "supabase", prefixes: "sbp_ sb_secret_", body: `[0-9A-Za-z_-]{30,}`, check: varied},
		{name: "neon", prefixes: "napi_", body: `[0-9a-z]{48,}`, check: varied},
		{name: "planetscale", prefixes: "pscale_tkn_ pscale_oauth_ pscale_pw_", body: `[0-9A-Za-z_=.-]{32,}`, check: varied},
		{name: "clickhouse", prefixes: "4b1d", body: `[0-9A-Za-z]{38}`, check: random},
		{name: "mongodb-atlas", prefixes: "mdb_sa_sk_", body: `[0-9A-Za-z_-]{36,}`, check: varied},
		{name: "confluent", prefixes: "cflt", body: `[0-9A-Za-z+/]{56,}`, check: varied},
		{name: "new-relic", prefixes: "NRAK- NRII- NRJS- NRRA- NRAA- NRSP-", body: `[0-9A-Za-z_-]{18,}`, check: varied},
		{name: "grafana", prefixes: "glc_ glsa_", body: `[0-9A-Za-z+/=_]{32,}`, check: varied},
		{name: "grafana-legacy", prefixes: "eyJrIjoi", body: `[0-9A-Za-z+/=]{60,}`, check: varied},
		{name: "dynatrace", prefixes: "dt0c01. dt0s01. dt0s02. dt0s08. dt0s16.", body: `[0-9A-Z]{8,24}\.[0-9A-Z]{48,}`, check: spread},
		{name: "honeycomb", prefixes: "hcaik_ hcxik_ hcxmk_ hcamk_", body: `[0-9a-z]{40,}`, check: varied},
		{name: "airtable", prefixes: "pat", body: `[0-9A-Za-z]{14}\.[0-9a-f]{60,}`, check: varied},
		{name: "contentful", prefixes: "CFPAT-", body: `[0-9A-Za-z_-]{40,}`, check: varied},
		{name: "jwt", prefixes: "eyJ", body: `[0-9A-Za-z_-]{10,500}\.[0-9A-Za-z_.-]{16,}`, check: varied},
		{name: "jwt-encoded", prefixes: "ZXlK", body: `[0-9A-Za-z+/=]{60,}`, check: varied},
	}
}

// modelFamilies are those who sell language models and what goes with them.
func modelFamilies() []family {
	return []family{
		{name: "openai", prefixes: "sk-", body: `[0-9A-Za-z_-]{16,}`, check: issued},
		{name: "openai-named", prefixes: "sk-proj- sk-svcacct- sk-admin- sk-ant- sk-or-v1- sk-lf- sk-litellm-", body: `[0-9A-Za-z_-]{16,}`, check: varied},
		{name: "openai-session", prefixes: "sess-", body: `[0-9A-Za-z]{40}`, check: varied},
		{name: "groq", prefixes: "gsk_", body: `[0-9A-Za-z]{40,}`, check: varied},
		{name: "xai", prefixes: "xai-", body: `[0-9A-Za-z]{40,}`, check: varied},
		{name: "cerebras", prefixes: "csk-", body: `[0-9a-z]{40,}`, check: varied},
		{name: "perplexity", prefixes: "pplx-", body: `[0-9A-Za-z]{40,}`, check: varied},
		{name: "replicate", prefixes: "r8_", body: `[0-9A-Za-z]{32,}`, check: varied},
		{name: "huggingface", prefixes: "hf_ api_org_", body: `[0-9A-Za-z]{30,}`, check: varied},
		{name: "nvidia", prefixes: "nvapi-", body: `[0-9A-Za-z_-]{40,}`, check: varied},
		{name: "together", prefixes: "tgp_v1_", body: `[0-9A-Za-z_-]{36,}`, check: varied},
		{name: "langsmith", prefixes: "lsv2_pt_ lsv2_sk_", body: `[0-9a-f]{32}_[0-9a-f]{8,}`, check: varied},
		{name: "pinecone", prefixes: "pcsk_", body: `[0-9A-Za-z_]{40,}`, check: varied},
		{name: "tavily", prefixes: "tvly-", body: `[0-9A-Za-z-]{28,}`, check: varied},
		{name: "firecrawl", prefixes: "fc-", body: `[0-9a-f]{32}`, check: varied},
		{name: "jina", prefixes: "jina_", body: `[0-9A-Za-z_-]{48,}`, check: varied},
		{name: "e2b", prefixes: "e2b_", body: `[0-9a-f]{40}`, check: varied},
		{name: "elevenlabs", prefixes: "sk_", body: `[0-9a-f]{48}`, check: varied},
		{name: "voyage", prefixes: "pa-", body: `[0-9A-Za-z_-]{43}`, check: random},
		{name: "apify", prefixes: "apify_api_", body: `[0-9A-Za-z]{30,}`, check: varied},
		{name: "notion", prefixes: "ntn_", body: `[0-9A-Za-z]{40,}`, check: varied},
		{name: "notion-legacy", prefixes: "secret_", body: `[0-9A-Za-z]{43}`, check: varied},
		{name: "settlemint", prefixes: "sm_pat_ sm_sat_ sm_aat_", body: `[0-9A-Za-z]{16,}`, check: varied},
	}
}

const uuid = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`

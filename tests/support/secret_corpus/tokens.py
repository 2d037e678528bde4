"""Tokens of vendors, as each documents them: `<A36>` is 36 letters and digits by chance.

`A` letters and digits, `l` letters, `z` lower case and digits, `U` upper case and digits, `h`
hexadecimal, `d` digits, `b` base64, `w` base64 for URLs, `g` a UUID.
"""

TOKENS: dict[str, tuple[str, ...]] = {
    "models": (
        *("sk-ant-api03-<w93>AA", "sk-ant-oat01-<w93>AA", "sk-ant-admin01-<w93>AA"),
        *(
            "sk-proj-<w74>T3BlbkFJ<w74>",
            "sk-svcacct-<w74>T3BlbkFJ<w74>",
            "sk-admin-<w58>T3BlbkFJ<w58>",
        ),
        *("sk-<A48>", "sk-or-v1-<h64>", "xai-<A80>", "gsk_<A52>", "r8_<A37>", "hf_<l34>"),
        *("AIzaSy<w33>", "AQ.Ab8RN6<w40>", "nvapi-<w64>", "pcsk_<A5>_<A63>", "tvly-dev-<A32>"),
        *("tvly-<A32>", "fc-<h32>", "e2b_<h40>", "csk-<z48>", "fw_<A24>", "tgp_v1_<w43>"),
        *("jina_<A32><A16>", "pplx-<A48>", "lsv2_pt_<h32>_<h10>", "sk-lf-<g>", "pa-<w43>"),
        *("sk_<h48>", "wandb_v1_<A27>_<A49>", "apify_api_<A36>", "rpa_<U46>", "BSA<w28>"),
        *("dtn_<h64>", "bb_live_<w27>", "crsr_<h64>", "sgp_<h40>", "ABSK<b128>"),
    ),
    "clouds": (
        *("AKIA<K16>", "ASIA<K16>", "GOCSPX-<w28>", "ya29.a0<w120>", "dop_v1_<h64>"),
        *("doo_v1_<h64>", "HRKU-AA<w58>", "cfut_<A48>", "cfat_<A48>", "cfk_<A48>", "vcp_<A56>"),
        *("vercel_blob_rw_<A16>_<A30>", "nfp_<A36>", "rnd_<A32>", "napi_<z64>", "fo1_<w43>"),
        *("FlyV1 fm2_<b160>", "tskey-auth-<A17>-<A32>", "tskey-client-<A17>-<A32>"),
        *("tskey-api-<A17>-<A32>", "LTAI<A20>", "AKID<A32>", "AQVN<w36>", "hvs.<w90>"),
        *("hvb.<w130>", "<A14>.atlasv1.<w64>", "dapi<h32>", "pul-<h40>", "dp.pt.<A43>"),
        *("dp.st.dev.<A43>", "pscale_pw_<w43>", "pscale_tkn_<w43>", "sbp_<h40>", "sb_secret_<w31>"),
        *("ops_eyJ<b240>", "sha256~<w43>", "glsa_<A32>_<h8>", "dt0c01.<U24>.<U64>", "NRAK-<U27>"),
        *("sntrys_eyJ<b100>_<b43>", "sntryu_<h64>", "phx_<A43>", "hcaik_01<z58>"),
        "mdb_sa_sk_<w40>",
    ),
    "forges and registries": (
        *("ghp_<A36>", "gho_<A36>", "ghu_<A36>", "ghs_<A36>", "ghr_<A76>"),
        *("github_pat_<A22>_<A59>", "glpat-<w20>", "glpat-<w27>.01.<z9>", "gldt-<w20>"),
        *("glrt-<w20>", "glptt-<h40>", "glcbt-<h2>_<w20>", "ATATT3xFfGF0<w171>=<U8>"),
        *("ATBB<A28>", "npm_<A36>", "pypi-AgEIcHlwaS5vcmc<w150>", "rubygems_<h48>"),
        *("cio<A32>", "dckr_pat_<w27>", "dckr_oat_<w32>", "AKCp8<A68>", "oy2<z43>"),
        *("packagist_uut_<h68>", "CCIPAT_<A22>_<h40>", "bkua_<h40>", "CLOJARS_<z60>"),
    ),
    "payment": (
        *("sk_live_<A24>", "sk_live_51<A97>", "rk_live_<A24>", "sk_test_<A24>", "whsec_<A32>"),
        *("sq0atp-<w22>", "sq0csp-<w43>", "EAAA<w60>", "shpat_<h32>", "shpss_<h32>", "shpca_<h32>"),
        *("access_token$production$<z16>$<h32>", "access-production-<g>", "rzp_live_<A14>"),
        *("FLWSECK_TEST-<h32>-X", "pdl_live_apikey_<z26>_<A22>_<A3>", "live_<A30>", "cs_<h40>"),
        "polar_oat_<A40>",
    ),
    "messages and work": (
        *("xoxb-<d12>-<d13>-<A24>", "xoxp-<d12>-<d12>-<d13>-<h32>", "xoxc-<d12>-<d12>-<d13>-<h64>"),
        *("xoxd-<b60>%2B<b60>%3D%3D", "xapp-1-A<U10>-<d13>-<h64>", "xoxe.xoxp-1-<b160>"),
        *("https://hooks.slack.com/services/T<U8>/B<U10>/<A24>", "MTA<A23>.G<A5>.<w38>"),
        *("<d10>:AA<w33>", "SK<h32>", "SG.<w22>.<w43>", "key-<h32>", "<h32>-us14"),
        *("xkeysib-<h64>-<A16>", "re_<A8>_<A24>", "EAAC<A160>", "lin_api_<A40>", "ntn_<A46>"),
        *("figd_<w40>", "pat<A14>.<h64>", "PMAK-<h24>-<h34>", "pat-na1-<g>", "tfp_<w59>"),
        *("CFPAT-<w43>", "pk_<d8>_<U32>", "duffel_live_<w43>", "sl.<w140>", "rdme_<z70>"),
        *("snyk_uat.<h8>.<w60>", "squ_<h40>", "AGE-SECRET-KEY-1<Q58>", "EZAK<A54>"),
    ),
}
"""By family."""

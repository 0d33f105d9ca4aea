"""Settings for a graphite-web that keeps all its files in the directory
$PERCORE_GRAPHITE."""
import os

_ROOT = os.environ['PERCORE_GRAPHITE']

SECRET_KEY = 'not a secret: this server listens on loopback only'
ALLOWED_HOSTS = ['127.0.0.1', 'localhost']
TIME_ZONE = 'UTC'

GRAPHITE_ROOT = '/usr/share/graphite-web'
STATIC_ROOT = '/usr/share/graphite-web/static'
CONF_DIR = _ROOT
STORAGE_DIR = _ROOT
WHISPER_DIR = os.path.join(_ROOT, 'whisper')
STANDARD_DIRS = [WHISPER_DIR]
LOG_DIR = os.path.join(_ROOT, 'log')
INDEX_FILE = os.path.join(_ROOT, 'search_index')
LOG_ROTATION = False

# graphite-web asks carbon for the values that carbon has not yet written to disk.
CARBONLINK_HOSTS = ['127.0.0.1:' + os.environ['PERCORE_CARBONLINK_PORT']]
CARBONLINK_TIMEOUT = 2.0

# Disable the caches, so that new metrics and values appear immediately.
DEFAULT_CACHE_DURATION = 0
FIND_CACHE_DURATION = 0
FIND_TOLERANCE = 0
DEFAULT_XFILES_FACTOR = 0

# Let everyone save dashboards without logging in.
DASHBOARD_REQUIRE_AUTHENTICATION = False

DATABASES = {
    'default': {
        'ENGINE': 'django.db.backends.sqlite3',
        'NAME': os.path.join(_ROOT, 'graphite.db'),
        'USER': '', 'PASSWORD': '', 'HOST': '', 'PORT': '',
    }
}
